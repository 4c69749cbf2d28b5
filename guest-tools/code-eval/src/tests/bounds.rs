//! Whatever the script, it ends in an answer or in words, and both have bounds.

use serde_json::json;

use super::{failure_of, log_of, result_of, run_with};
use crate::console::{MOST_BYTES, MOST_LINE_BYTES, MOST_LINES};

/// Frames of a build for tests are several times those of a component's.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(test).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn recursion_ends_in_words() {
    on_a_large_stack(recurse);
}

fn recurse() {
    for code in [
        "function f() { return f() + 1 }\nf()",
        "const f = n => [n].map(f)[0];\nf(1)",
        "const o = {get a() { return this.a }};\no.a",
        "const o = {toString() { return `${this}` }};\n`${o}`",
        "const p = new Proxy({}, {get: (target, key, self) => self[key]});\np.a",
        "const f = () => Reflect.apply(f, null, []);\nf()",
        "class A { constructor() { new A() } }\nnew A()",
        "function* g() { yield* g() }\n[...g()]",
        "const f = async () => await f();\nf()",
        "const a = [2, 1]; const f = () => a.toSorted(f).length;\nf()",
        "const f = () => 'x'.replace(/x/, f);\nf()",
        "const f = () => JSON.stringify({toJSON: f});\nf()",
        "const f = () => JSON.parse('[1]', f);\nf()",
        "const f = () => tools === f || Array.from({length: 1}, f);\nf()",
        "({toJSON() { return JSON.stringify(this) }})",
        "const f = () => eval('f()');\nf()",
        "let p = {}; for (let i = 0; i < 5000; i++) p = {p};\nconsole.log(p);\np",
    ] {
        match run_with(&Default::default(), code) {
            Ok(_) => {}
            Err(failure) => assert!(!failure.message.is_empty() && failure.message.len() < 3 << 10, "{code}"),
        }
    }
    let failure = failure_of("function f() { return f() + 1 }\nf()");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("script-failed", "too much recursion: more than 256 calls within one another; use a loop")
    );
    assert_eq!(result_of("const f = n => n ? 1 + f(n - 1) : 0; f(200)"), json!(200), "what is sane goes");
}

#[test]
fn deep_code_is_refused() {
    on_a_large_stack(nest);
}

fn nest() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ")"), ("`${", "}`")] {
        let failure = failure_of(&[open.repeat(5000), close.repeat(5000)].concat());
        assert_eq!(failure.code, "invalid-arguments");
        assert!(failure.message.contains("more than 40 brackets"), "{}", failure.message);
    }
    assert_eq!(result_of(&["[".repeat(39), "]".repeat(39), ".length".to_owned()].concat()), json!(1));
}

#[test]
fn large_arrays_can_be_spread() {
    assert_eq!(
        result_of("const a = Array.from({length: 20000}, (_, i) => i); Math.max(...a)"),
        json!(19_999)
    );
    assert_eq!(
        result_of("const a = [], b = new Array(20000).fill(1); a.push(...b); a.length"),
        json!(20_000)
    );
    let failure = failure_of("const f = (...a) => a.length; f(...new Array(1.5e5).fill(1))");
    assert!(failure.message.contains("do not spread large arrays"), "{}", failure.message);
}

#[test]
fn a_result_that_is_too_long_is_refused() {
    assert_eq!(result_of("'x'.repeat(100 << 10)").as_str().unwrap().len(), 100 << 10);
    for code in ["'x'.repeat(200 << 10)", "new Array(1e5).fill(0)", "const a = []; a[4294967294] = 1; a"] {
        let failure = failure_of(code);
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            (
                "result-too-large",
                "the result is longer than 128 KiB of JSON: return less, only what the answer needs"
            ),
            "{code}"
        );
    }
    let failure = failure_of("let a = ['x']; for (let i = 0; i < 90; i++) a = [a, a]; a");
    assert_eq!(failure.code, "result-too-large", "what is shared is written each time");
}

#[test]
fn the_console_writes_what_is_readable() {
    let log = log_of(
        "console.log('a', 1, {b: [2]}, undefined, null, () => 1, NaN, 1n);
         console.error(new TypeError('bad'));
         console.log();
         const o = {}; o.o = o; console.warn('cycle:', o);
         console.info(new Map([['k', 'v']])); console.debug([undefined, 'x']);
         console.log({get a() { throw new Error('no') }})",
    );
    assert_eq!(
        log,
        [
            "a 1 {\"b\":[2]} undefined null [function] null \"1\"",
            "\"TypeError: bad (line 2)\"",
            "",
            "cycle: [no JSON: it contains itself]",
            "{\"k\":\"v\"}",
            "[null,\"x\"]",
            "[no JSON: Error: no (line 6)]",
        ]
    );
}

#[test]
fn the_console_has_bounds() {
    let log = log_of("for (let i = 0; i < 1000; i++) console.log(i)");
    assert_eq!(log.len(), MOST_LINES + 1);
    assert_eq!(log[MOST_LINES], "(900 more lines were left out)");

    let log = log_of("console.log('\u{1f980}'.repeat(10000)); console.log({a: 'x'.repeat(1e6)})");
    assert!(log.iter().all(|line| line.len() <= MOST_LINE_BYTES + 8 && line.ends_with('…')), "{log:?}");

    let log = log_of("for (let i = 0; i < 50; i++) console.log('x'.repeat(2000))");
    assert!(log.iter().map(String::len).sum::<usize>() <= MOST_BYTES + 64);
    assert!(log.last().unwrap().ends_with("more lines were left out)"), "{log:?}");
}
