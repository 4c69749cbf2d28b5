//! The journal of the last runs, in memory.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};

use agent_core::journal_format::{decode, encode};
use agent_core::ports::{Epoch, Journal, JournalError, JournalResult};
use agent_core::words::Event;
use boxed_async::boxed_async;

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
    events: HashMap<String, Vec<Box<str>>>,
    /// Oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl MemoryJournal {
    /// Keeps as many of the last runs as fit into `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, runs: Mutex::default() }
    }
}

#[boxed_async]
impl Journal for MemoryJournal {
    /// Runs in memory are those of requests, which nobody claims: the epoch is not looked at.
    async fn append(&self, run_id: &str, _epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        let encoded: Vec<_> = events.iter().map(encode).collect::<Result<_, _>>()?;
        let mut runs = self.runs.lock();
        if first == 0 && !runs.events.contains_key(run_id) {
            runs.order.push_back(run_id.to_owned());
            runs.events.insert(run_id.to_owned(), Vec::new());
        }
        // A run that was forgotten while it went on is not resumed in its middle.
        let Some(kept) = runs.events.get_mut(run_id) else { return Ok(()) };
        if kept.len() as u64 != first {
            return Err(JournalError::Conflict { run_id: run_id.to_owned(), sequence: first });
        }
        let bytes = encoded.iter().map(String::len).sum::<usize>();
        kept.extend(encoded.into_iter().map(String::into_boxed_str));
        runs.bytes += bytes;
        runs.forget_oldest(self.most_bytes);
        Ok(())
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.read_page(run_id, from, u32::MAX).await
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        let first = usize::try_from(from).unwrap_or(usize::MAX);
        let events: Vec<Box<str>> = {
            let runs = self.runs.lock();
            let kept = runs.events.get(run_id).and_then(|kept| kept.get(first..)).unwrap_or_default();
            kept.iter().take(most as usize).cloned().collect()
        };
        (from..).zip(&events).map(|(sequence, event)| decode(run_id, sequence, event)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_read_as_it_was_appended() {
        let journal = MemoryJournal::new(1 << 20);
        for sequence in 0..3 {
            journal.append("run_1", Epoch(1), sequence, &[Event::Cancelled]).await.unwrap();
        }
        assert_eq!(journal.read("run_1", 0).await.unwrap(), vec![Event::Cancelled; 3]);
        assert_eq!(journal.read("run_2", 0).await.unwrap(), vec![]);
    }

    #[tokio::test]
    async fn an_event_number_is_taken_once() {
        let journal = MemoryJournal::new(1 << 20);
        journal.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        for wrong in [0, 2] {
            let error = journal.append("run_1", Epoch(1), wrong, &[Event::Cancelled]).await.unwrap_err();
            assert!(matches!(error, JournalError::Conflict { sequence, .. } if sequence == wrong));
        }
    }

    #[tokio::test]
    async fn the_oldest_runs_are_forgotten_and_stay_so() {
        let one = encode(&Event::Cancelled).unwrap().len();
        let journal = MemoryJournal::new(2 * one);
        for run in ["run_1", "run_2", "run_3"] {
            journal.append(run, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        }
        journal.append("run_1", Epoch(1), 1, &[Event::Cancelled]).await.unwrap();
        assert_eq!(journal.read("run_1", 0).await.unwrap(), vec![]);
        assert_eq!(journal.read("run_3", 0).await.unwrap().len(), 1);
    }
}
