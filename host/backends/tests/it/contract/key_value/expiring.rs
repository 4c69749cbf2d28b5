//! Times to live. The store counts them, so a test waits for what the store says.

use std::time::Duration;

use test_servers::eventually;

use super::{Bench, SPACE};

const SOON: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits until a key is absent.
async fn is_gone(bench: &Bench, key: &str) {
    eventually("a value to expire", async || {
        bench.store.get(SPACE, key).await.unwrap().is_none().then_some(())
    })
    .await;
}

pub(crate) async fn a_value_is_kept_no_longer_than_it_may(bench: &Bench) {
    bench.store.set(SPACE, "short", b"1", Some(SOON)).await.unwrap();
    bench.store.set(SPACE, "long", b"2", Some(HOUR)).await.unwrap();
    bench.store.set(SPACE, "ever", b"3", None).await.unwrap();
    is_gone(bench, "short").await;
    assert_eq!(bench.peer.get(SPACE, "short").await.unwrap(), None);
    assert_eq!(bench.store.list_keys(SPACE, "", None, 10).await.unwrap(), ["ever", "long"]);
    assert!(bench.store.get(SPACE, "long").await.unwrap().is_some());
    assert!(bench.store.get(SPACE, "ever").await.unwrap().is_some());
}

pub(crate) async fn a_value_that_expired_is_absent_to_every_operation(bench: &Bench) {
    let store = &bench.store;
    let expire = async |key: &str| {
        store.set(SPACE, key, b"41", Some(Duration::ZERO)).await.unwrap();
        assert_eq!(store.get(SPACE, key).await.unwrap(), None);
    };
    expire("k").await;
    assert_eq!(store.list_keys(SPACE, "", None, 10).await.unwrap(), [""; 0]);
    assert!(!store.delete(SPACE, "k").await.unwrap());
    expire("k").await;
    assert!(!store.swap(SPACE, "k", Some(b"41"), b"1").await.unwrap());
    expire("k").await;
    assert!(store.swap(SPACE, "k", None, b"1").await.unwrap());
    assert_eq!(store.get(SPACE, "k").await.unwrap().as_deref(), Some(&b"1"[..]), "it stays for good");
    expire("n").await;
    assert_eq!(store.add(SPACE, "n", 1).await.unwrap(), 1);
    assert_eq!(store.get(SPACE, "n").await.unwrap().as_deref(), Some(&b"1"[..]), "it stays for good");
    assert_eq!(bench.peer.list_keys(SPACE, "", None, 10).await.unwrap(), ["k", "n"]);
}

pub(crate) async fn the_last_value_set_says_how_long_it_is_kept(bench: &Bench) {
    for (key, time_to_live) in [("set for good", None), ("set for an hour", Some(HOUR))] {
        bench.store.set(SPACE, key, b"1", Some(SOON)).await.unwrap();
        bench.store.set(SPACE, key, b"2", time_to_live).await.unwrap();
    }
    bench.store.set(SPACE, "swapped", b"1", Some(HOUR)).await.unwrap();
    assert!(bench.store.swap(SPACE, "swapped", Some(b"1"), b"2").await.unwrap());
    bench.store.set(SPACE, "soon gone", b"1", None).await.unwrap();
    bench.store.set(SPACE, "soon gone", b"1", Some(SOON)).await.unwrap();
    is_gone(bench, "soon gone").await;
    let kept = ["set for an hour", "set for good", "swapped"];
    assert_eq!(bench.store.list_keys(SPACE, "", None, 10).await.unwrap(), kept);
}

pub(crate) async fn an_addition_leaves_the_time_to_live_as_it_is(bench: &Bench) {
    eventually("an addition that comes in time", async || {
        bench.store.set(SPACE, "short", b"1", Some(4 * SOON)).await.unwrap();
        (bench.store.add(SPACE, "short", 1).await.unwrap() == 2).then_some(())
    })
    .await;
    bench.store.add(SPACE, "ever", 1).await.unwrap();
    is_gone(bench, "short").await;
    assert_eq!(bench.store.list_keys(SPACE, "", None, 10).await.unwrap(), ["ever"]);
}

pub(crate) async fn any_time_to_live_can_be_given(bench: &Bench) {
    let all = [Duration::from_millis(u64::MAX), Duration::MAX, Duration::from_millis(1 << 52), 1000 * HOUR];
    for time_to_live in all {
        bench.store.set(SPACE, "k", b"1", Some(time_to_live)).await.unwrap();
        assert!(bench.store.get(SPACE, "k").await.unwrap().is_some(), "{time_to_live:?}");
        assert_eq!(bench.store.add(SPACE, "k", 1).await.unwrap(), 2, "{time_to_live:?}");
    }
}
