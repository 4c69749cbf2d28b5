//! What a script sees of the world.

use serde_json::json;

use super::{failure_of, result_of};

#[test]
fn the_clock_is_the_hosts_and_in_greenwich() {
    let before = agent_tool_sdk::clock::now_ms();
    let seen = result_of("[Date.now(), +new Date(), new Date().getTimezoneOffset()]");
    let after = agent_tool_sdk::clock::now_ms();
    for index in 0..2 {
        let seen = seen[index].as_u64().unwrap();
        assert!((before..=after).contains(&seen), "{before} {seen} {after}");
    }
    assert_eq!(seen[2], 0);
    assert_eq!(result_of("new Date(2026, 0, 1).toISOString()"), json!("2026-01-01T00:00:00.000Z"));
}

#[test]
fn random_numbers_are_the_same_in_every_try_of_a_call() {
    let code = "Array.from({length: 1000}, () => Math.random())";
    let drawn = result_of(code);
    assert_eq!(result_of(code), drawn);
    let drawn: Vec<f64> = serde_json::from_value(drawn).unwrap();
    assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)));
    let mean = drawn.iter().sum::<f64>() / 1000.0;
    assert!((0.45..0.55).contains(&mean), "{mean}");
    let mut distinct = drawn.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    assert_eq!(distinct.len(), 1000);
}

#[test]
fn there_is_nothing_to_reach_the_world_with() {
    let names = "['fetch', 'require', 'process', 'setTimeout', 'setInterval', 'XMLHttpRequest', 'WebAssembly', 'Deno',
        'Atomics', 'SharedArrayBuffer', 'Temporal', 'Intl'].filter(name => name in globalThis)";
    assert_eq!(result_of(names), json!([]));
    let failure = failure_of("await import('fs')");
    assert_eq!(failure.code, "script-failed");
    let failure = failure_of("new ArrayBuffer(1e9)");
    assert!(failure.message.starts_with("RangeError"), "{}", failure.message);
}

#[test]
fn what_models_like_to_use_is_there() {
    for (code, result) in [
        ("'abcdef'.substr(1, 2)", json!("bc")),
        ("Object.groupBy([1, 2, 3], x => x % 2 ? 'odd' : 'even')", json!({"odd": [1, 3], "even": [2]})),
        ("[3, 1, 2].toSorted()", json!([1, 2, 3])),
        ("['b', 'a', 'c'].sort((x, y) => x.localeCompare(y)).join('')", json!("abc")),
        ("[1, [2, [3]]].flat(2).at(-1)", json!(3)),
        ("structuredCloneIsMissing = typeof structuredClone", json!("undefined")),
        ("(1234.5678).toFixed(2)", json!("1234.57")),
        ("'2024-05-01'.replaceAll('-', '/')", json!("2024/05/01")),
        ("[...'a1b22'.matchAll(/\\d+/g)].map(m => m[0])", json!(["1", "22"])),
        ("/(?<year>\\d{4})/.exec('in 2024').groups.year", json!("2024")),
        ("Object.fromEntries(Object.entries({a: 1}).map(([k, v]) => [k, v * 2]))", json!({"a": 2})),
        ("JSON.parse('{\"a\": [1, 2]}').a[1]", json!(2)),
        ("JSON.parse('[1, 2]', (k, v) => typeof v === 'number' ? v * 2 : v)", json!([2, 4])),
        ("JSON.stringify({a: [1, {b: 2}]}, null, 2).length", json!(48)),
        ("try { JSON.parse('{a}') } catch (e) { e.name }", json!("SyntaxError")),
        ("parseInt('42px', 10) + Number('0.5')", json!(42.5)),
        ("encodeURIComponent('a b&c')", json!("a%20b%26c")),
        ("new Date('2024-02-29T12:00:00Z').getUTCDay()", json!(4)),
        ("(1234567.891).toLocaleString().length > 0", json!(true)),
        ("'\u{e9}'.normalize('NFD').length", json!(2)),
        ("'I'.toLowerCase() + '\u{df}'.toUpperCase()", json!("iSS")),
        ("new Intl_().x; function Intl_() { this.x = 1 }", json!(1)),
    ] {
        assert_eq!(result_of(code), result, "{code}");
    }
}
