//! Lists of keys.

use agent_core::ports::key_value::MOST_KEY_BYTES;
use futures::future::join_all;

use super::{Bench, SPACE};

async fn fill(bench: &Bench, keys: &[&str]) {
    for key in keys {
        bench.store.set(SPACE, key, b"", None).await.unwrap();
    }
}

pub(crate) async fn keys_are_listed_in_the_order_of_their_bytes(bench: &Bench) {
    let mut keys =
        ["b", "a", "B", "ab", "a\0", "a b", "é", "ê", "z", "\u{ffff}", "🦀", "10", "9", "-", "\0", "~"];
    fill(bench, &keys).await;
    keys.sort_by_key(|key| key.as_bytes());
    assert_eq!(bench.peer.list_keys(SPACE, "", None, 100).await.unwrap(), keys);
    for most in [0, 1, 2, 15, 16, 17, u32::MAX] {
        let listed = bench.store.list_keys(SPACE, "", None, most).await.unwrap();
        assert_eq!(listed, keys[..keys.len().min(most as usize)], "{most}");
    }
}

pub(crate) async fn a_prefix_is_no_pattern(bench: &Bench) {
    let keys =
        ["%", "%a", "*a", "?a", "A1", "[a]", "\\", "\\a", "_", "_a", "a", "a%b", "a1", "a\u{10ffff}", "b"];
    fill(bench, &keys).await;
    let mut keys = keys;
    keys.sort_by_key(|key| key.as_bytes());
    let prefixes = [
        "",
        "%",
        "_",
        "\\",
        "*",
        "?",
        "[",
        "[a",
        "a",
        "a%",
        "a_",
        "A",
        "a\u{10ffff}",
        "é",
        "\0",
        "'",
        "a1x",
        "(",
        "+",
        "-",
    ];
    for prefix in prefixes {
        let expected: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).copied().collect();
        assert_eq!(bench.store.list_keys(SPACE, prefix, None, 100).await.unwrap(), expected, "{prefix:?}");
    }
    let too_long = "a".repeat(MOST_KEY_BYTES + 1);
    assert_eq!(bench.store.list_keys(SPACE, &too_long, None, 100).await.unwrap(), [""; 0]);
}

pub(crate) async fn a_listing_goes_on_after_a_key(bench: &Bench) {
    let mut keys = ["a", "a\0", "a\0\0", "aa", "ab", "ab\u{10ffff}", "ac", "é", "🦀"];
    fill(bench, &keys).await;
    keys.sort_by_key(|key| key.as_bytes());
    let too_long = "a".repeat(100_000);
    for after in ["", "\0", "a", "a\0", "a!", "ab", "b", "zz", "é", "🦀", "\u{10ffff}", &too_long] {
        for prefix in ["", "a", "ab", "é"] {
            let is_listed = |key: &&&str| key.as_bytes() > after.as_bytes() && key.starts_with(prefix);
            let expected: Vec<_> = keys.iter().filter(is_listed).copied().collect();
            let listed = bench.store.list_keys(SPACE, prefix, Some(after), 100).await.unwrap();
            assert_eq!(listed, expected, "{prefix:?} after {:?}", after.chars().take(9).collect::<String>());
        }
    }
}

pub(crate) async fn a_listing_has_at_most_a_thousand_keys(bench: &Bench) {
    let keys: Vec<_> = (0..1005).map(|number| format!("k{number:04}")).collect();
    for some in keys.chunks(20) {
        let sets = some.iter().map(|key| bench.store.set(SPACE, key, b"", None));
        join_all(sets).await.into_iter().for_each(Result::unwrap);
    }
    for most in [1000, 1001, u32::MAX] {
        assert_eq!(bench.store.list_keys(SPACE, "k", None, most).await.unwrap(), keys[..1000]);
    }
    let mut paged: Vec<String> = Vec::new();
    loop {
        let page = bench.store.list_keys(SPACE, "k", paged.last().map(String::as_str), 300).await.unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, keys);
}
