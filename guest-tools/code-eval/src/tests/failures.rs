//! What goes wrong is told with its place and its reason.

use std::rc::Rc;

use super::{Fakes, failure_of, run_with};

#[test]
fn a_syntax_error_names_its_line_and_shows_it() {
    for (code, parts) in [
        ("const a = 1;\nconst b = ;\nb", &["line 2, col 11", "line 2 is: const b = ;"][..]),
        ("const a = 'open", &["unterminated string literal", "line 1 is: const a = 'open"]),
        ("if (true) {\n  1\n", &["it ends too early", "line 2 is: 1"]),
        ("1;\n2 }", &["a brace is closed that was never opened"]),
        ("import x from 'y';", &["line 1, col 8"]),
        ("const n: number = 1;", &["line 1, col 8"]),
        ("break", &["line 1"]),
    ] {
        let failure = failure_of(code);
        assert_eq!(failure.code, "invalid-arguments", "{code}");
        assert!(failure.message.starts_with("the code is not valid JavaScript: "), "{}", failure.message);
        for part in parts {
            assert!(failure.message.contains(part), "{code}: {}", failure.message);
        }
    }
}

#[test]
fn an_error_names_its_kind_and_its_line() {
    for (code, message) in [
        ("const a = 1;\nthrow new Error('mine')", "Error: mine (line 2)"),
        ("const a = 1;\n\nnope()", "ReferenceError: nope is not defined"),
        ("function f() {\n  throw new RangeError('deep')\n}\nf()", "RangeError: deep (line 2)"),
        ("await null;\nthrow new TypeError('later')", "TypeError: later (line 2)"),
        ("[1].map(x => {\n  throw new Error('in a callback')\n})", "Error: in a callback (line 2)"),
        ("throw 'text'", "the script threw \"text\""),
        ("throw {code: 7}", "the script threw {\"code\":7}"),
        ("class Own extends Error { name = 'Own' }\nthrow new Own('x')", "Own: x"),
        ("throw new Error()", "Error (line 1)"),
        ("Promise.reject(new Error('rejected'))", "Error: rejected (line 1)"),
        ("[Promise.reject(new Error('held'))]", "Error: held (line 1)"),
        ("({get a() { throw new Error('got') }})", "Error: got (line 1)"),
    ] {
        let failure = failure_of(code);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("script-failed", message), "{code}");
    }
    let failure = failure_of("const a = 1;\nnull.x");
    assert!(
        failure.message.starts_with("TypeError: ") && failure.message.ends_with("(line 2)"),
        "{}",
        failure.message
    );
}

#[test]
fn a_promise_that_nothing_settles_is_told_apart() {
    let failure = failure_of("await new Promise(() => {})");
    assert_eq!(failure.code, "script-failed");
    assert!(failure.message.contains("nothing settles"), "{}", failure.message);
}

#[test]
fn a_failure_says_how_far_the_script_came() {
    let tools = Rc::new(Fakes::default().with("save", |_| Ok(true.into())));
    let code = "console.log('saving');\ntools.save(); tools.save();\nthrow new Error('too late')";
    let failure = run_with(&tools, code).unwrap_err();
    assert_eq!(
        failure.message,
        "Error: too late (line 3); 2 calls of tools had succeeded before; the console says:\nsaving"
    );
    let failure = run_with(&tools, "tools.save();\nconsole.log('\u{fc}'.repeat(2000));\nnope").unwrap_err();
    assert!(failure.message.contains("1 call of a tool had"), "{}", failure.message);
    assert!(failure.message.len() < 2 << 10, "a failure has bounds");
}
