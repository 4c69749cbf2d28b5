//! The journal of jobs' runs: each event is stored before the next step, apart from the last ones, which are
//! written behind together with the run's record, while the queue is told of the end.
//!
//! What that means for a worker that is killed is said in `loop_driver/journaled.rs`.

use std::sync::Arc;

use agent_core::ports::{Appended, Epoch, Journal, JournalResult};
use agent_core::words::Event;
use boxed_async::boxed_async;

use super::WriteBehind;
use super::pending::followed_by;

/// Leaves the last events of runs to a [`WriteBehind`]. Each of these runs has to be recorded there
/// ([`WriteBehind::end`]), or its last events stay unwritten.
pub struct LastEventsBehind {
    journal: Arc<dyn Journal>,
    behind: WriteBehind,
}

impl LastEventsBehind {
    /// Writes to and reads from `journal`; the last events go to `behind`, which has the same store.
    pub fn new(journal: Arc<dyn Journal>, behind: WriteBehind) -> Self {
        Self { journal, behind }
    }
}

#[boxed_async]
impl Journal for LastEventsBehind {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        self.journal.append(run_id, epoch, first, events).await
    }

    async fn append_last(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> JournalResult<Appended> {
        if self.behind.take_last(run_id, epoch, first, events) {
            return Ok(Appended::Behind);
        }
        self.journal.append(run_id, epoch, first, events).await.map(|()| Appended::Stored)
    }

    /// What is stored, and what is still on its way from here.
    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        // Before the store is asked: what is written meanwhile is there twice, and not missing.
        let waiting = self.behind.waiting(run_id);
        let stored = self.journal.read(run_id, from).await?;
        Ok(match waiting {
            Some((first, events)) => followed_by(stored, from, first, events),
            None => stored,
        })
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        let waiting = self.behind.waiting(run_id);
        let mut events = self.journal.read_page(run_id, from, most).await?;
        if let Some((first, waiting)) = waiting {
            events = followed_by(events, from, first, waiting);
            events.truncate(most as usize);
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use agent_core::ports::Unobserved;
    use agent_core::testing::TestRuns;
    use agent_core::words::RunRecord;

    use super::*;
    use crate::journal::Backlog;
    use crate::testing::flush;

    fn event(by: &str) -> Event {
        Event::TakenUp { by: by.into() }
    }

    fn record() -> RunRecord {
        let failed = agent_core::testing::failed("");
        RunRecord { job_id: Some("1".into()), ..agent_core::testing::record("run_1", failed) }
    }

    #[tokio::test]
    async fn the_last_events_are_read_at_once_and_written_with_the_record_unless_somebody_has_taken_the_run_over()
     {
        for is_taken_over in [false, true] {
            let store = Arc::new(TestRuns::default());
            let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
            let journal = LastEventsBehind::new(store.clone(), behind.clone());
            journal.append("run_1", Epoch(2), 0, &[event("a")]).await.unwrap();
            let last = [event("b"), event("c")];
            assert_eq!(journal.append_last("run_1", Epoch(2), 1, &last).await, Ok(Appended::Behind));
            assert_eq!(store.events("run_1"), [event("a")], "nothing waits for the store");
            for from in 0..4 {
                let all = [event("a"), event("b"), event("c")];
                let expected = &all[usize::try_from(from).unwrap().min(3)..];
                assert_eq!(journal.read("run_1", from).await.unwrap(), expected);
                // Readers are not shown what another worker may write in other words.
                let stored = &all[usize::try_from(from).unwrap().min(1)..1];
                assert_eq!(behind.read("run_1", from).await.unwrap(), stored);
                let page = &expected[..expected.len().min(1)];
                assert_eq!(journal.read_page("run_1", from, 1).await.unwrap(), page);
                assert_eq!(behind.read_page("run_1", from, 1).await.unwrap(), stored);
            }
            if is_taken_over {
                store.append("run_1", Epoch(3), 1, &[event("heir")]).await.unwrap();
            }
            behind.end(record());
            flush(&flusher).await;
            let (events, records) = if is_taken_over {
                (vec![event("a"), event("heir")], 0)
            } else {
                (vec![event("a"), event("b"), event("c")], 1)
            };
            assert_eq!((store.events("run_1"), store.records().len()), (events.clone(), records));
            assert_eq!(journal.read("run_1", 0).await.unwrap(), events);
        }
    }

    /// A copy that took a server's place may lack what that had acknowledged.
    #[tokio::test]
    async fn a_run_is_recorded_although_the_store_has_lost_events_before_its_last_ones() {
        let store = Arc::new(TestRuns::default());
        let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
        let journal = LastEventsBehind::new(store.clone(), behind.clone());
        assert_eq!(journal.append_last("run_1", Epoch(2), 1, &[event("b")]).await, Ok(Appended::Behind));
        behind.end(record());
        flush(&flusher).await;
        assert_eq!((store.events("run_1"), store.records()), (vec![], vec![record()]));
    }

    #[tokio::test]
    async fn the_last_events_are_written_at_once_when_there_is_no_room() {
        let store = Arc::new(TestRuns::default());
        let backlog = Backlog { runs: 10, bytes: 0 };
        let (behind, _flusher) = WriteBehind::new(store.clone(), backlog, Arc::new(Unobserved));
        let journal = LastEventsBehind::new(store.clone(), behind);
        assert_eq!(journal.append_last("run_1", Epoch(1), 0, &[event("a")]).await, Ok(Appended::Stored));
        assert_eq!(store.events("run_1"), [event("a")]);
    }
}
