//! The journal of the last runs, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::ports::{Journal, JournalError};
use agent_core::words::Event;
use async_trait::async_trait;

/// Keeps the histories of the last runs and forgets the oldest.
#[derive(Debug)]
pub struct MemoryJournal {
    most_bytes: usize,
    /// A plain mutex: nothing is awaited under it.
    runs: Mutex<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    /// Each event as JSON: what it takes is then known, and the same as in any other store.
    events: HashMap<String, Vec<Box<[u8]>>>,
    /// Oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl MemoryJournal {
    /// Keeps as many of the last runs as fit into `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn append(&self, run_id: &str, sequence: u64, event: &Event) -> Result<(), JournalError> {
        let event = serde_json::to_vec(event).map_err(store_error)?.into_boxed_slice();
        let mut runs = self.runs();
        if sequence == 0 && !runs.events.contains_key(run_id) {
            runs.order.push_back(run_id.to_owned());
            runs.events.insert(run_id.to_owned(), Vec::new());
        }
        // A run that was forgotten while it went on is not taken up again in its middle.
        let Some(events) = runs.events.get_mut(run_id) else { return Ok(()) };
        if events.len() as u64 != sequence {
            return Err(JournalError::Conflict { run_id: run_id.to_owned(), sequence });
        }
        let bytes = event.len();
        events.push(event);
        runs.bytes += bytes;
        runs.forget_oldest(self.most_bytes);
        Ok(())
    }

    async fn read(&self, run_id: &str) -> Result<Vec<Event>, JournalError> {
        let events = self.runs().events.get(run_id).cloned().unwrap_or_default();
        events.iter().map(|event| serde_json::from_slice(event).map_err(store_error)).collect()
    }
}

impl Runs {
    fn forget_oldest(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes {
            let Some(oldest) = self.order.pop_front() else { return };
            let events = self.events.remove(&oldest).unwrap_or_default();
            self.bytes -= events.iter().map(|event| event.len()).sum::<usize>();
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn store_error(error: serde_json::Error) -> JournalError {
    JournalError::Store { detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_read_as_it_was_appended() {
        let journal = MemoryJournal::new(1 << 20);
        for sequence in 0..3 {
            journal.append("run_1", sequence, &Event::Cancelled).await.unwrap();
        }
        assert_eq!(journal.read("run_1").await.unwrap(), vec![Event::Cancelled; 3]);
        assert_eq!(journal.read("run_2").await.unwrap(), vec![]);
    }

    #[tokio::test]
    async fn an_event_number_is_taken_once() {
        let journal = MemoryJournal::new(1 << 20);
        journal.append("run_1", 0, &Event::Cancelled).await.unwrap();
        for wrong in [0, 2] {
            let error = journal.append("run_1", wrong, &Event::Cancelled).await.unwrap_err();
            assert!(matches!(error, JournalError::Conflict { sequence, .. } if sequence == wrong));
        }
    }

    #[tokio::test]
    async fn the_oldest_runs_are_forgotten_and_stay_so() {
        let one = serde_json::to_vec(&Event::Cancelled).unwrap().len();
        let journal = MemoryJournal::new(2 * one);
        for run in ["run_1", "run_2", "run_3"] {
            journal.append(run, 0, &Event::Cancelled).await.unwrap();
        }
        journal.append("run_1", 1, &Event::Cancelled).await.unwrap();
        assert_eq!(journal.read("run_1").await.unwrap(), vec![]);
        assert_eq!(journal.read("run_3").await.unwrap().len(), 1);
    }
}
