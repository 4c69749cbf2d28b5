//! Counters.

use agent_core::ports::KeyValueError;
use futures::future::join_all;

use super::{Bench, SPACE};

pub(crate) async fn a_number_is_counted_up_and_down(bench: &Bench) {
    let store = &bench.store;
    for (delta, sum) in [(5, 5), (-7, -2), (0, -2), (2, 0), (-1, -1), (1001, 1000)] {
        assert_eq!(store.add(SPACE, "n", delta).await.unwrap(), sum);
        assert_eq!(bench.peer.get(SPACE, "n").await.unwrap(), Some(sum.to_string().into_bytes()));
    }
    assert_eq!(store.add(SPACE, "zero", 0).await.unwrap(), 0);
    assert_eq!(store.get(SPACE, "zero").await.unwrap().as_deref(), Some(&b"0"[..]));
    // More than a floating-point number holds.
    store.set(SPACE, "n", b"9007199254740993", None).await.unwrap();
    assert_eq!(store.add(SPACE, "n", 2).await.unwrap(), 9_007_199_254_740_995);
    assert_eq!(store.add(SPACE, "least", i64::MIN).await.unwrap(), i64::MIN);
    assert_eq!(store.add(SPACE, "most", i64::MAX).await.unwrap(), i64::MAX);
    assert_eq!(store.add(SPACE, "most", i64::MIN).await.unwrap(), -1);
}

pub(crate) async fn what_is_no_number_is_not_added_to(bench: &Bench) {
    let texts: [&[u8]; 16] = [
        b"",
        b" ",
        b"one",
        b"1 ",
        b" 1",
        b"+1",
        b"01",
        b"-0",
        b"-",
        b"1.0",
        b"1e3",
        b"0x10",
        b"1\0",
        b"\xff",
        b"9223372036854775808",
        b"-9223372036854775809",
    ];
    for text in texts {
        bench.store.set(SPACE, "n", text, None).await.unwrap();
        for delta in [0, 1, -1] {
            assert_eq!(bench.store.add(SPACE, "n", delta).await, Err(KeyValueError::NotANumber), "{text:?}");
        }
        assert_eq!(bench.store.get(SPACE, "n").await.unwrap().as_deref(), Some(text));
    }
}

pub(crate) async fn a_sum_that_does_not_fit_changes_nothing(bench: &Bench) {
    for (number, delta) in [(i64::MAX, 1), (i64::MIN, -1), (i64::MAX, i64::MAX), (-1, i64::MIN)] {
        let text = number.to_string().into_bytes();
        bench.store.set(SPACE, "n", &text, None).await.unwrap();
        assert_eq!(bench.store.add(SPACE, "n", delta).await, Err(KeyValueError::NotANumber));
        assert_eq!(bench.store.get(SPACE, "n").await.unwrap(), Some(text));
    }
}

pub(crate) async fn of_many_additions_at_once_all_count(bench: &Bench) {
    let additions = (0..60).map(|number| {
        let store = if number % 2 == 0 { &bench.store } else { &bench.peer };
        store.add(SPACE, "n", 1)
    });
    let mut sums: Vec<i64> = join_all(additions).await.into_iter().map(Result::unwrap).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=60).collect::<Vec<_>>(), "each sum is told once");
}
