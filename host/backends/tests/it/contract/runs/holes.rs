//! Appends behind an event that is not there: a failover may have lost it after it was acknowledged.

use agent_core::ports::{Epoch, JournalError, JournalResult};
use agent_core::words::Event;
use futures::join;

use super::{Bench, ended_well, history, record};

fn conflict(id: &str, sequence: u64) -> JournalResult {
    Err(JournalError::Conflict { run_id: id.into(), sequence })
}

pub(crate) async fn an_append_behind_a_hole_is_a_conflict(bench: &Bench) {
    let events = history("hole");
    for epoch in [Epoch::UNCLAIMED, Epoch(1)] {
        let id = format!("run_{}", epoch.0);
        let (id, end) = (id.as_str(), record(&id, ended_well()));
        for store in [&bench.store, &bench.peer] {
            assert_eq!(store.append(id, epoch, 1, &events[1..3]).await, conflict(id, 1));
            assert_eq!(store.append_and_save(epoch, 2, &events[2..3], &end).await, conflict(id, 2));
            assert_eq!(store.read(id, 0).await.unwrap(), []);
            assert_eq!(store.find(id).await.unwrap(), None);
        }
        bench.store.append(id, epoch, 0, &events[..2]).await.unwrap();
        for store in [&bench.store, &bench.peer] {
            for first in [3, 5] {
                assert_eq!(store.append(id, epoch, first, &events[3..]).await, conflict(id, first));
            }
            assert_eq!(store.append(id, epoch, 1, &events[1..2]).await, Ok(()), "its own again");
        }
        assert_eq!(bench.peer.read(id, 0).await.unwrap(), events[..2]);
        bench.peer.append(id, epoch, 2, &events[2..3]).await.unwrap();
        bench.store.append(id, epoch, 3, &events[3..]).await.unwrap();
        assert_eq!(bench.peer.read(id, 0).await.unwrap(), events);
    }
}

/// A store may write them with one commit, in which none sees the others.
pub(crate) async fn appends_of_a_run_that_wait_together_are_written_in_order_or_not_at_all(bench: &Bench) {
    let events = history("together");
    for (id, is_taken) in [("run_free", false), ("run_taken", true)] {
        if is_taken {
            bench.peer.append(id, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        }
        let (first, second, third) = join!(
            bench.store.append(id, Epoch(1), 0, &events[..2]),
            bench.store.append(id, Epoch(1), 2, &events[2..3]),
            bench.store.append(id, Epoch(1), 3, &events[3..]),
        );
        let read = bench.peer.read(id, 0).await.unwrap();
        if is_taken {
            assert_eq!([first, second, third], [0, 2, 3].map(|sequence| conflict(id, sequence)));
            assert_eq!(read, [Event::Cancelled]);
        } else {
            assert_eq!([first, second, third], [Ok(()), Ok(()), Ok(())]);
            assert_eq!(read, events);
        }
    }
}
