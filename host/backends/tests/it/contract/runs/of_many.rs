//! Appends of several events, which are kept whole or not at all.

use agent_core::ports::{Epoch, JournalError};
use agent_core::testing::says;
use agent_core::words::Event;
use futures::future::join_all;

use super::{Bench, ended_well, history, record};

pub(crate) async fn an_append_of_many_is_kept_whole_or_not_at_all(bench: &Bench) {
    let events = history("many");
    bench.store.append("run_1", Epoch(1), 0, &events).await.unwrap();
    bench.peer.append("run_1", Epoch(1), 0, &events).await.unwrap();
    assert_eq!(bench.peer.read("run_1", 0).await.unwrap(), events);
    let longer: Vec<_> = [history("other"), history("longer")].concat();
    let conflict = JournalError::Conflict { run_id: "run_1".into(), sequence: 2 };
    assert_eq!(bench.peer.append("run_1", Epoch(2), 2, &longer).await, Err(conflict));
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), events, "nothing of it was kept");
    let at_once = (1..=10).map(|epoch| {
        let (store, longer) = (if epoch % 2 == 0 { &bench.store } else { &bench.peer }, &longer);
        async move { store.append("run_2", Epoch(epoch), 0, longer).await }
    });
    let kept = join_all(at_once).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((kept, bench.store.read("run_2", 0).await.unwrap()), (1, longer));
}

pub(crate) async fn an_append_of_more_than_one_statement_takes_is_kept_whole(bench: &Bench) {
    let event = |number| Event::from(says(&format!("reply {number}")));
    let events: Vec<_> = (0..100).map(event).collect();
    for (index, store) in [&bench.store, &bench.peer, &bench.store].into_iter().enumerate() {
        assert_eq!(store.append("run_1", Epoch(1), 0, &events).await, Ok(()), "{index}");
        assert_eq!(store.append_and_save(Epoch(1), 0, &events, &record("run_2", ended_well())).await, Ok(()));
    }
    assert_eq!(bench.peer.read("run_1", 0).await.unwrap(), events);
    assert_eq!(bench.peer.read("run_2", 0).await.unwrap(), events);
}

/// A store may add what is missing, or refuse.
pub(crate) async fn an_append_that_is_there_in_part_is_not_taken_for_kept(bench: &Bench) {
    let events = history("part");
    bench.store.append("run_1", Epoch(1), 0, &events[..1]).await.unwrap();
    let longer = bench.peer.append("run_1", Epoch(1), 0, &events[..3]).await;
    let there = if longer.is_ok() { 3 } else { 1 };
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), events[..there], "{longer:?}");
    bench.store.append("run_2", Epoch(1), 0, &[events[0].clone(), Event::Cancelled]).await.unwrap();
    let other = bench.peer.append("run_2", Epoch(1), 0, &events[..2]).await.unwrap_err();
    assert!(matches!(other, JournalError::Conflict { .. }), "{other:?}");
}

/// A worker that froze in the middle of an append wakes when another one has taken the run up.
pub(crate) async fn an_append_that_is_repeated_late_leaves_nothing_behind_a_later_claim(bench: &Bench) {
    let (events, other) = (history("late"), Event::from(says("taken up")));
    bench.store.append("run_1", Epoch(1), 0, &events[..1]).await.unwrap();
    bench.peer.append("run_1", Epoch(2), 1, std::slice::from_ref(&other)).await.unwrap();
    for store in [&bench.store, &bench.peer] {
        assert!(store.append("run_1", Epoch(1), 0, &events).await.is_err());
        assert_eq!(store.read("run_1", 0).await.unwrap(), [events[0].clone(), other.clone()]);
    }
    bench.peer.append("run_1", Epoch(2), 2, &events[1..]).await.unwrap();
    assert_eq!(bench.store.read("run_1", 2).await.unwrap(), events[1..]);
}
