//! How much a space may have in it.

use std::time::Duration;

use agent_core::ports::{KeyValueError, Space};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use test_servers::eventually;

use super::{Bench, SPACE, limited};

fn exceeded<T>(quota: u64) -> Result<T, KeyValueError> {
    Err(KeyValueError::QuotaExceeded { quota })
}

pub(crate) async fn a_quota_counts_keys_and_values(bench: &Bench) {
    let space = limited(10);
    assert_eq!(bench.store.set(space, "key", &[0; 8], None).await, exceeded(10));
    assert_eq!(bench.store.get(space, "key").await.unwrap(), None);
    bench.store.set(space, "key", &[0; 4], None).await.unwrap();
    assert_eq!(
        bench.peer.set(space, "é🦀", b"", None).await.unwrap_err(),
        KeyValueError::QuotaExceeded { quota: 10 }
    );
    bench.store.set(space, "é", b"1", None).await.unwrap();
    assert_eq!(bench.store.set(space, "z", b"", None).await, exceeded(10), "a key counts too");
    assert_eq!(bench.store.list_keys(space, "", None, 10).await.unwrap(), ["key", "é"]);
    bench.store.set(Space { user: None, ..space }, "key", &[0; 7], None).await.unwrap();
    assert_eq!(bench.store.set(limited(0), "z", b"", None).await, exceeded(0));
    bench.store.set(limited(u64::MAX), "z", b"", None).await.unwrap();
}

pub(crate) async fn what_a_write_replaces_makes_room(bench: &Bench) {
    let space = limited(10);
    bench.store.set(space, "k", &[0; 9], None).await.unwrap();
    bench.store.set(space, "k", &[1; 9], None).await.unwrap();
    assert_eq!(bench.store.set(space, "k", &[2; 10], None).await, exceeded(10));
    assert_eq!(bench.store.get(space, "k").await.unwrap(), Some(vec![1; 9]), "what was there stays");
    bench.store.set(space, "k", &[2; 3], None).await.unwrap();
    bench.peer.set(space, "l", &[3; 5], None).await.unwrap();
    assert!(bench.store.delete(space, "k").await.unwrap());
    bench.store.set(space, "m", &[4; 3], None).await.unwrap();
    assert_eq!(bench.store.set(space, "n", b"", None).await, exceeded(10));
}

pub(crate) async fn swaps_and_additions_obey_the_quota(bench: &Bench) {
    let space = limited(10);
    bench.store.set(space, "fill", &[0; 3], None).await.unwrap();
    assert_eq!(bench.store.swap(space, "k", None, &[0; 3]).await, exceeded(10));
    assert_eq!(bench.store.swap(space, "fill", Some(b"1"), &[0; 10]).await, Ok(false), "it is not tried");
    assert_eq!(bench.store.swap(space, "fill", Some(&[0; 3]), &[0; 7]).await, exceeded(10));
    assert!(bench.store.swap(space, "k", None, b"9").await.unwrap());
    assert_eq!(bench.store.add(space, "n", 1).await, exceeded(10));
    assert_eq!(bench.store.add(space, "k", 90).await.unwrap(), 99);
    assert_eq!(bench.store.add(space, "k", 1).await, exceeded(10), "the sum has a digit more");
    assert_eq!(bench.store.add(space, "k", -1).await.unwrap(), 98);
    assert_eq!(bench.store.get(space, "n").await.unwrap(), None);
    assert_eq!(bench.store.get(space, "fill").await.unwrap(), Some(vec![0; 3]));
    assert_eq!(bench.store.list_keys(space, "", None, 10).await.unwrap(), ["fill", "k"]);
}

pub(crate) async fn a_space_whose_quota_was_narrowed_can_be_tidied_up(bench: &Bench) {
    bench.store.set(SPACE, "a", &[0; 100], None).await.unwrap();
    bench.store.set(SPACE, "n", b"10", None).await.unwrap();
    let space = limited(20);
    assert_eq!(bench.store.set(space, "b", b"", None).await, exceeded(20));
    assert_eq!(bench.store.add(space, "n", 90).await, exceeded(20));
    assert_eq!(bench.store.add(space, "n", 1).await.unwrap(), 11, "it has as many digits");
    bench.store.set(space, "a", &[1; 100], None).await.unwrap();
    bench.store.set(space, "a", &[2; 90], None).await.unwrap();
    assert_eq!(bench.store.set(space, "a", &[3; 91], None).await, exceeded(20));
    assert!(bench.store.delete(space, "a").await.unwrap());
    bench.store.set(space, "b", b"", None).await.unwrap();
}

pub(crate) async fn what_has_expired_does_not_count(bench: &Bench) {
    let space = limited(10);
    bench.store.set(space, "a", &[0; 9], Some(Duration::from_millis(100))).await.unwrap();
    eventually("the quota to be free again", async || {
        match bench.store.set(space, "b", &[1; 9], None).await {
            Ok(()) => Some(()),
            Err(error) => {
                assert_eq!(error, KeyValueError::QuotaExceeded { quota: 10 });
                None
            }
        }
    })
    .await;
    assert_eq!(bench.store.set(space, "c", b"", None).await, exceeded(10));
    bench.store.delete(space, "b").await.unwrap();
    for key in ["d", "e", "f"] {
        bench.store.set(space, key, &[0; 9], Some(Duration::ZERO)).await.unwrap();
    }
    bench.peer.set(space, "g", &[0; 9], None).await.unwrap();
}

/// However the writes fall, exactly as many succeed as fit.
pub(crate) async fn a_quota_holds_when_two_replicas_write_at_once(bench: &Bench) {
    const FIT: usize = 7;
    let keys: Vec<_> = (10..40).map(|number| format!("k{number}")).collect();
    for round in ["set", "swap", "add"] {
        // Each takes 10 bytes: three of its key and seven of its value.
        let space = Space { component: round, user: None, quota: 10 * FIT as u64 + 9 };
        let writes = keys.iter().enumerate().map(|(number, key)| -> BoxFuture<'_, _> {
            let store = if number % 2 == 0 { &bench.store } else { &bench.peer };
            match round {
                "set" => store.set(space, key, &[0; 7], None).boxed(),
                "swap" => store
                    .swap(space, key, None, &[0; 7])
                    .map(|swapped| swapped.map(|done| assert!(done)))
                    .boxed(),
                _ => store.add(space, key, 1_000_000).map(|sum| sum.map(drop)).boxed(),
            }
        });
        let written = join_all(writes).await;
        let refused = written.iter().filter(|written| **written == exceeded(space.quota)).count();
        assert_eq!(refused, keys.len() - FIT, "{round}: {written:?}");
        let mut kept: Vec<_> = keys
            .iter()
            .zip(&written)
            .filter(|(_, written)| written.is_ok())
            .map(|(key, _)| key.clone())
            .collect();
        kept.sort();
        assert_eq!(kept.len(), FIT, "{round}: {written:?}");
        assert_eq!(bench.store.list_keys(space, "", None, 100).await.unwrap(), kept, "{round}");
    }
}
