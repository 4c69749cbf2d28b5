//! What every key-value store promises: `KeyValueStore`.

mod against_model;
mod expiring;
mod listing;
mod numbers;
mod quotas;

use agent_core::ports::key_value::{MOST_KEY_BYTES, MOST_VALUE_BYTES};
use agent_core::ports::{KeyValueError, KeyValueStore, Space};
use futures::future::join_all;

use super::text::NASTY;

pub(crate) use against_model::*;
pub(crate) use expiring::*;
pub(crate) use listing::*;
pub(crate) use numbers::*;
pub(crate) use quotas::*;

/// An empty store.
pub(crate) type Bench = super::Bench<dyn KeyValueStore>;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { key_value, $benches:
            a_value_is_read_as_it_was_set,
            what_was_never_set_is_absent,
            keys_hold_any_text_and_do_not_mix,
            spaces_do_not_mix_whatever_their_names_are,
            keys_and_values_have_bounds,
            what_is_deleted_is_gone,
            a_swap_wants_what_is_expected,
            of_many_swaps_at_once_one_wins,
            it_does_what_the_model_does,
            // numbers
            a_number_is_counted_up_and_down,
            what_is_no_number_is_not_added_to,
            a_sum_that_does_not_fit_changes_nothing,
            of_many_additions_at_once_all_count,
            // expiring
            a_value_is_kept_no_longer_than_it_may,
            a_value_that_expired_is_absent_to_every_operation,
            the_last_value_set_says_how_long_it_is_kept,
            an_addition_leaves_the_time_to_live_as_it_is,
            any_time_to_live_can_be_given,
            // quotas
            a_quota_counts_keys_and_values,
            what_a_write_replaces_makes_room,
            swaps_and_additions_obey_the_quota,
            a_space_whose_quota_was_narrowed_can_be_tidied_up,
            what_has_expired_does_not_count,
            a_quota_holds_when_two_replicas_write_at_once,
            // listing
            keys_are_listed_in_the_order_of_their_bytes,
            a_prefix_is_no_pattern,
            a_listing_goes_on_after_a_key,
            a_listing_has_at_most_a_thousand_keys,
        }
    };
}
pub(crate) use test_all;

/// More than any test needs.
const ROOMY: u64 = 16 << 20;

pub(crate) const SPACE: Space<'_> = Space { component: "notes", user: Some("u1"), quota: ROOMY };

/// Every question of a store that is away or frozen fails as such, and no failure names its password.
pub(crate) async fn check_unavailable(store: &dyn KeyValueStore) {
    // Refused connections are tried again until the time is over: nobody has to wait for that.
    tokio::time::pause();
    let errors = [
        store.get(SPACE, "n").await.unwrap_err(),
        store.set(SPACE, "k", b"1", None).await.unwrap_err(),
        store.swap(SPACE, "k", None, b"1").await.unwrap_err(),
        store.add(SPACE, "n", 1).await.unwrap_err(),
        store.delete(SPACE, "k").await.unwrap_err(),
        store.list_keys(SPACE, "", None, 10).await.unwrap_err(),
    ];
    tokio::time::resume();
    for error in errors {
        assert!(matches!(error, KeyValueError::Unavailable(_)), "{error:?}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// [`SPACE`] with another quota.
pub(crate) fn limited(quota: u64) -> Space<'static> {
    Space { quota, ..SPACE }
}

pub(crate) async fn a_value_is_read_as_it_was_set(bench: &Bench) {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let longest = vec![0xff; MOST_VALUE_BYTES];
    for value in [&b""[..], b"\0", b"1", &all_bytes, NASTY.as_bytes(), &longest] {
        bench.store.set(SPACE, "k", value, None).await.unwrap();
        assert_eq!(bench.store.get(SPACE, "k").await.unwrap().as_deref(), Some(value));
        assert_eq!(bench.peer.get(SPACE, "k").await.unwrap().as_deref(), Some(value), "in another process");
    }
}

pub(crate) async fn what_was_never_set_is_absent(bench: &Bench) {
    bench.store.set(SPACE, "k", b"1", None).await.unwrap();
    for key in ["K", "k ", " k", "k\0", "kk", "\0", "values", "*", "%"] {
        assert_eq!(bench.store.get(SPACE, key).await.unwrap(), None, "{key:?}");
        assert!(!bench.store.delete(SPACE, key).await.unwrap(), "{key:?}");
    }
}

/// Sorted by their bytes.
fn odd_keys() -> Vec<String> {
    let nasty: String = NASTY.chars().take(40).collect();
    let longest = ["k".repeat(MOST_KEY_BYTES), "🦀".repeat(MOST_KEY_BYTES / 4), "\0".repeat(MOST_KEY_BYTES)];
    let short = [
        "\0",
        "\0\0",
        "%",
        "_",
        "\\",
        "\\0",
        "\\\\",
        "'",
        "\"",
        "a%",
        "a_",
        "a\\",
        "a",
        "A",
        "a ",
        " a",
        "é",
        "e\u{301}",
        "🦀",
        "\u{10ffff}",
        "\u{7f}",
        "\u{80}",
        "\u{ffff}",
        "\n",
        "*",
        "?",
        "[a]",
        "{a}",
        ":",
        "1",
        "01",
        "values",
        "NULL",
    ];
    let mut keys: Vec<String> = short.map(ToOwned::to_owned).into();
    keys.extend(longest);
    keys.push(nasty);
    keys.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    keys
}

pub(crate) async fn keys_hold_any_text_and_do_not_mix(bench: &Bench) {
    let keys = odd_keys();
    for key in &keys {
        assert!(bench.store.swap(SPACE, key, None, key.as_bytes()).await.unwrap(), "{key:?} is another's");
    }
    for key in &keys {
        let value = bench.peer.get(SPACE, key).await.unwrap();
        assert_eq!(value.as_deref(), Some(key.as_bytes()), "{key:?}");
    }
    assert_eq!(bench.store.list_keys(SPACE, "", None, 1000).await.unwrap(), keys);
    for key in &keys {
        assert!(bench.store.delete(SPACE, key).await.unwrap(), "{key:?}");
    }
    assert_eq!(bench.store.list_keys(SPACE, "", None, 1000).await.unwrap(), [""; 0]);
}

pub(crate) async fn spaces_do_not_mix_whatever_their_names_are(bench: &Bench) {
    let long = "n".repeat(5000);
    let names = [
        ("a", None),
        ("a", Some("")),
        ("a", Some("b")),
        ("a", Some("\0")),
        ("a", Some("b:")),
        ("a:b", None),
        ("a:", Some("b")),
        ("a\0b", None),
        ("a\0", Some("b")),
        ("ab", None),
        ("A", None),
        ("a ", None),
        ("", None),
        ("", Some("a")),
        ("1:a", None),
        ("}", None),
        ("a}:keys", None),
        ("a", Some("b}:values")),
        (NASTY, Some(NASTY)),
        (NASTY, None),
        (&long, Some(&long)),
        (&long, None),
    ];
    let space = |(component, user)| Space { component, user, quota: 10 };
    for (number, name) in names.iter().enumerate() {
        let swapped = bench.store.swap(space(*name), "k", None, number.to_string().as_bytes()).await;
        assert_eq!(swapped, Ok(true), "{name:?} is another space");
    }
    for (number, name) in names.iter().enumerate() {
        let value = bench.peer.get(space(*name), "k").await.unwrap();
        assert_eq!(value, Some(number.to_string().into_bytes()), "{name:?}");
        assert_eq!(bench.store.list_keys(space(*name), "", None, 10).await.unwrap(), ["k"]);
    }
    assert!(bench.store.delete(space(names[0]), "k").await.unwrap());
    assert!(bench.store.get(space(names[1]), "k").await.unwrap().is_some());
}

pub(crate) async fn keys_and_values_have_bounds(bench: &Bench) {
    let too_long = "é".repeat(MOST_KEY_BYTES / 2 + 1);
    for key in ["", &too_long] {
        let bytes = key.len();
        let error = KeyValueError::TooLarge { part: "key", least: 1, most: MOST_KEY_BYTES, bytes };
        assert_eq!(bench.store.get(SPACE, key).await, Err(error.clone()));
        assert_eq!(bench.store.set(SPACE, key, b"", None).await, Err(error.clone()));
        assert_eq!(bench.store.swap(SPACE, key, None, b"").await, Err(error.clone()));
        assert_eq!(bench.store.add(SPACE, key, 1).await, Err(error.clone()));
        assert_eq!(bench.store.delete(SPACE, key).await, Err(error));
    }
    let longest = "é".repeat(MOST_KEY_BYTES / 2);
    bench.store.set(SPACE, &longest, b"1", None).await.unwrap();
    let value = vec![0; MOST_VALUE_BYTES + 1];
    let error =
        KeyValueError::TooLarge { part: "value", least: 0, most: MOST_VALUE_BYTES, bytes: value.len() };
    assert_eq!(bench.store.set(SPACE, &longest, &value, None).await, Err(error.clone()));
    assert_eq!(bench.store.swap(SPACE, &longest, Some(b"1"), &value).await, Err(error));
    assert_eq!(
        bench.store.swap(SPACE, &longest, Some(&value), b"2").await,
        Ok(false),
        "nothing is that long"
    );
    assert_eq!(bench.store.get(SPACE, &longest).await.unwrap().as_deref(), Some(&b"1"[..]));
}

pub(crate) async fn what_is_deleted_is_gone(bench: &Bench) {
    bench.store.set(SPACE, "a", b"1", None).await.unwrap();
    bench.store.set(SPACE, "b", b"2", None).await.unwrap();
    assert!(bench.peer.delete(SPACE, "a").await.unwrap());
    assert!(!bench.store.delete(SPACE, "a").await.unwrap());
    assert_eq!(bench.store.get(SPACE, "a").await.unwrap(), None);
    assert_eq!(bench.store.list_keys(SPACE, "", None, 10).await.unwrap(), ["b"]);
    assert!(bench.store.delete(SPACE, "b").await.unwrap());
    assert_eq!(bench.store.add(SPACE, "b", 1).await.unwrap(), 1, "an empty space is used again");
}

pub(crate) async fn a_swap_wants_what_is_expected(bench: &Bench) {
    let store = &bench.store;
    assert!(!store.swap(SPACE, "k", Some(b""), b"1").await.unwrap(), "nothing is not an empty value");
    assert!(!store.swap(SPACE, "k", Some(b"1"), b"1").await.unwrap());
    assert_eq!(store.get(SPACE, "k").await.unwrap(), None);
    assert!(store.swap(SPACE, "k", None, b"").await.unwrap());
    assert!(!store.swap(SPACE, "k", None, b"1").await.unwrap(), "an empty value is not nothing");
    assert!(store.swap(SPACE, "k", Some(b""), b"\0").await.unwrap());
    assert!(!store.swap(SPACE, "k", Some(b""), b"1").await.unwrap());
    assert!(store.swap(SPACE, "k", Some(b"\0"), b"\0").await.unwrap());
    assert!(bench.peer.swap(SPACE, "k", Some(b"\0"), b"01").await.unwrap());
    assert!(!store.swap(SPACE, "k", Some(b"1"), b"2").await.unwrap(), "values are no numbers");
    assert_eq!(store.get(SPACE, "k").await.unwrap().as_deref(), Some(&b"01"[..]));
}

pub(crate) async fn of_many_swaps_at_once_one_wins(bench: &Bench) {
    let mut before: Option<Vec<u8>> = None;
    for round in 0..5 {
        let values: Vec<_> = (0..12).map(|number| format!("{round}.{number}").into_bytes()).collect();
        let swaps = values.iter().enumerate().map(|(number, value)| {
            let store = if number % 2 == 0 { &bench.store } else { &bench.peer };
            store.swap(SPACE, "k", before.as_deref(), value)
        });
        let won: Vec<bool> = join_all(swaps).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<_> = values.iter().zip(&won).filter(|(_, won)| **won).collect();
        assert_eq!(winners.len(), 1, "{won:?}");
        let after = bench.store.get(SPACE, "k").await.unwrap();
        assert_eq!(after.as_ref(), Some(winners[0].0));
        before = after;
    }
}
