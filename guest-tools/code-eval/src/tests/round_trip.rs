//! Properties: JSON goes in and comes out again, and no code brings the engine down.

use std::rc::Rc;

use proptest::prelude::*;
use serde_json::Value;

use super::{Fakes, run_with};

/// Any JSON whose numbers are those of JavaScript.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-9_007_199_254_740_991..9_007_199_254_740_991_i64).prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(whole_as_integer),
        any::<String>().prop_map(Value::from),
        "[a-z_]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof!["[a-z]{1,4}", "[0-9]{1,3}", any::<String>()],
                inner,
                0..8
            )
            .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// JavaScript writes whole numbers below 10^21 without a fraction or an exponent, and -0 as 0. Those that it
/// cannot tell from their neighbours are left out.
fn whole_as_integer(number: f64) -> Value {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    match number.abs() {
        size if number.fract() != 0.0 || size >= 1e21 => Value::from(number),
        size if size <= SAFE => Value::from(number as i64),
        _ => Value::from(SAFE as i64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_is_what_it_was_after_a_call(value in json()) {
        let text = value.clone();
        let tools = Rc::new(Fakes::default().with("given", move |_| Ok(text.clone())).with("echo", |given| Ok(given.clone())));
        let code = "tools.echo({value: tools.given({})}).value";
        let answer = run_with(&tools, code).map_err(|failure| TestCaseError::fail(failure.message))?;
        prop_assert_eq!(&answer["result"], &value);
    }

    #[test]
    fn json_parse_and_stringify_agree_with_ours(value in json()) {
        let text = value.to_string();
        let tools = Rc::new(Fakes::default().with("given", move |_| Ok(Value::from(text.clone()))));
        let code = "const text = tools.given({}); JSON.parse(JSON.stringify(JSON.parse(text)))";
        let answer = run_with(&tools, code).map_err(|failure| TestCaseError::fail(failure.message))?;
        prop_assert_eq!(&answer["result"], &value);
    }

    #[test]
    fn no_code_is_too_strange(tokens in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..24)) {
        let tools = Rc::new(Fakes::default().with("echo", |given| Ok(given.clone())));
        // Either is an answer; what must not happen is a panic.
        let _ = run_with(&tools, &tokens.concat());
    }
}

const TOKENS: [&str; 40] = [
    "tools",
    ".",
    "echo",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "a",
    "=",
    "=>",
    ",",
    ";",
    "\n",
    "1",
    "'x'",
    "`",
    "${",
    "/",
    "//",
    "return ",
    "await ",
    "const ",
    "let ",
    "function ",
    "async ",
    "if ",
    "else ",
    "try ",
    "catch ",
    "throw ",
    "new ",
    "...",
    "?.",
    "yield ",
    "class ",
    ":",
    "\u{1f980}",
    "\r",
];
