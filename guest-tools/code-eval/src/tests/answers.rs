//! Which value is the answer, in all the ways that models say it.

use serde_json::json;

use super::{failure_of, result_of, run_with};

#[test]
fn the_last_expression_is_the_answer() {
    for (code, result) in [
        ("1 + 2", json!(3)),
        ("const a = [1, 2, 3];\na.map(x => x * 2)", json!([2, 4, 6])),
        ("let x = 1; x += 4;", json!(5)),
        ("({a: 1, b: [true, null]})", json!({"a": 1, "b": [true, null]})),
        ("(1, 2)", json!(2)),
        ("\"text\"", json!("text")),
        ("`a${1 + 1}`", json!("a2")),
        ("[3, 1, 2].sort()[0]", json!(1)),
        ("!0", json!(true)),
        ("-(5 ** 1)", json!(-5)),
        ("let i = 1; i++; ++i", json!(3)),
        ("true ? 'yes' : 'no'", json!("yes")),
        ("/b+/.exec('abbc')[0]", json!("bb")),
        ("new Date(0).toISOString()", json!("1970-01-01T00:00:00.000Z")),
        ("typeof undefined", json!("undefined")),
        ("null ?? 'none'", json!("none")),
        ("({a: {b: 1}})?.a?.b", json!(1)),
        ("String.raw`a\\n`", json!("a\\n")),
        ("'a' in {a: 1}", json!(true)),
        ("(function () { return 1 })()", json!(1)),
        ("(() => ({a: 1}))()", json!({"a": 1})),
        ("delete {}.a", json!(true)),
        ("'\u{1f980} \u{fc}'; 'x'", json!("x")),
        ("let a = '\u{1f980}'; a.length", json!(2)),
        ("/* \u{1f980} */ 'after a crab'", json!("after a crab")),
        ("1 // the answer", json!(1)),
        ("const f = x => x + 1\n\nf(1);\n\n", json!(2)),
        ("main();\nfunction main() { return 'hoisted' }", json!("hoisted")),
        ("1;;;", json!(1)),
        ("'a'\r\n+ 'b'\r\n", json!("ab")),
        ("let [p, q] = [1, 2]; [p, q] = [q, p]; [p, q]", json!([2, 1])),
    ] {
        assert_eq!(result_of(code), result, "{code}");
    }
}

#[test]
fn so_are_those_at_the_ends_of_branches() {
    assert_eq!(result_of("if (1 > 2) { 'a' } else if (true) { const b = 'b'; b } else 'c'"), json!("b"));
    assert_eq!(result_of("if (1 < 2) 'a'; else 'b';"), json!("a"));
    assert_eq!(result_of("try { null.x } catch (e) { e.name }"), json!("TypeError"));
    assert_eq!(result_of("try { 'fine' } finally { 1 }"), json!("fine"));
    assert_eq!(result_of("{ const a = 1; { a + 1 } }"), json!(2));
}

#[test]
fn return_and_await_work_at_the_top() {
    for (code, result) in [
        ("return 1", json!(1)),
        ("const a = 1;\nif (a) return {a};\nreturn 2;", json!({"a": 1})),
        ("await 1", json!(1)),
        ("const a = await Promise.resolve(2); a", json!(2)),
        ("await (1 + 1)", json!(2)),
        ("return await Promise.all([1, Promise.resolve(2)])", json!([1, 2])),
        ("for (const x of [1, 2]) { if (x === 2) return x }", json!(2)),
        ("let sum = 0; for await (const x of [1, Promise.resolve(2)]) sum += x; sum", json!(3)),
    ] {
        assert_eq!(result_of(code), result, "{code}");
    }
}

#[test]
fn promises_are_awaited_and_functions_called() {
    for (code, result) in [
        ("Promise.resolve(1)", json!(1)),
        ("(async () => { await null; return 'iife' })()", json!("iife")),
        ("async function main() { return await 7 }\nmain()", json!(7)),
        ("async () => { return 'a function' }", json!("a function")),
        ("async function main() { return 1 }\nreturn main", json!(1)),
        ("async (given) => given === tools", json!(true)),
        ("[1, 2].map(async x => { await null; return x * 2 })", json!([2, 4])),
        ("Promise.all([1, 2].map(async x => x + 1)).then(all => all.length)", json!(2)),
        ("Promise.allSettled([Promise.reject(1)]).then(([one]) => one.status)", json!("rejected")),
    ] {
        assert_eq!(result_of(code), result, "{code}");
    }
}

#[test]
fn a_script_without_a_value_is_told_so() {
    let hint =
        json!({"result": null, "hint": "the script has no value: end it with an expression or `return`"});
    for code in ["", "// nothing", "const a = 1;", "for (const a of [1]) a", "undefined"] {
        assert_eq!(run_with(&Default::default(), code).unwrap(), hint, "{code}");
    }
    assert_eq!(run_with(&Default::default(), "null").unwrap(), json!({"result": null}));
    assert_eq!(
        run_with(&Default::default(), "console.log(1)").unwrap(),
        json!({"result": null, "log": ["1"]})
    );
}

#[test]
fn what_json_lacks_has_a_place_in_it() {
    for (code, result) in [
        (
            "[undefined, () => 1, Symbol('s'), NaN, Infinity, -Infinity]",
            json!([null, null, null, null, null, null]),
        ),
        ("({a: undefined, b: () => 1, c: 1})", json!({"c": 1})),
        ("NaN", json!(null)),
        ("Symbol('s')", json!(null)),
        ("2n ** 64n", json!("18446744073709551616")),
        ("[1n]", json!(["1"])),
        ("new Map([['a', 1], [2, new Set([1, 1, 3])]])", json!({"a": 1, "2": [1, 3]})),
        ("new Date(1e12)", json!("2001-09-09T01:46:40.000Z")),
        ("[, 1]", json!([null, 1])),
        ("({toJSON() { return {a: 1} }})", json!({"a": 1})),
        ("class Point { constructor() { this.x = 1 } get y() { return 2 } }; new Point()", json!({"x": 1})),
        ("-0", json!(0)),
        ("[1e21, 0.1 + 0.2, 1e-7, 2 ** 53]", json!([1e21, 0.1 + 0.2, 1e-7, 9_007_199_254_740_992_u64])),
        ("({'__proto__x': 1, ['__proto__']: 2})", json!({"__proto__x": 1, "__proto__": 2})),
        ("'\\ud800'", json!("\u{fffd}")),
        ("const o = {}; [o, o]", json!([{}, {}])),
    ] {
        assert_eq!(result_of(code), result, "{code}");
    }
    let error = result_of("try { undefined_name } catch (e) { ({e}) }");
    assert_eq!(error, json!({"e": "ReferenceError: undefined_name is not defined"}));
}

#[test]
fn what_has_none_is_refused_by_name() {
    for (code, reason) in [
        ("const o = {}; o.o = o; o", "it contains itself"),
        ("const m = new Map(); m.set('m', [m]); m", "it contains itself"),
        (
            "let o = 1; for (let i = 0; i < 200; i++) o = [o]; o",
            "it is more than 100 arrays and objects deep",
        ),
        ("[new Promise(() => 1)]", "it holds a promise that is not settled"),
    ] {
        let failure = failure_of(code);
        assert_eq!(failure.code, "result-not-json", "{code}");
        assert!(failure.message.contains(reason), "{code}: {}", failure.message);
    }
}
