//! A journal that wakes the readers of a run when the process itself appends to it.
//!
//! Appends of other replicas are found by the store's own [`Journal::tail`].

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Epoch, Journal, JournalError};
use agent_core::words::Event;
use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

/// Wakes whoever tails a run, at each append of this process.
pub struct NotifyingJournal {
    journal: Arc<dyn Journal>,
    tailed: Tailed,
}

/// The runs that somebody tails, by id.
#[derive(Debug, Clone, Default)]
struct Tailed(Arc<Mutex<HashMap<String, watch::Sender<()>>>>);

/// Somebody who tails a run, until this is dropped.
struct Tailing {
    tailed: Tailed,
    run_id: String,
    appends: watch::Receiver<()>,
}

impl NotifyingJournal {
    /// Appends to `journal` and reads from it.
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal, tailed: Tailed::default() }
    }
}

impl Tailed {
    fn begin(&self, run_id: &str) -> Tailing {
        let mut runs = self.0.lock();
        let sender = runs.entry(run_id.to_owned()).or_insert_with(|| watch::channel(()).0);
        let appends = sender.subscribe();
        Tailing { tailed: self.clone(), run_id: run_id.to_owned(), appends }
    }

    fn notify(&self, run_id: &str) {
        if let Some(sender) = self.0.lock().get(run_id) {
            let _ = sender.send(());
        }
    }
}

impl Drop for Tailing {
    fn drop(&mut self) {
        let mut runs = self.tailed.0.lock();
        // The receiver being dropped is still subscribed, so a count of one means that no other is left.
        if runs.get(&self.run_id).is_some_and(|sender| sender.receiver_count() <= 1) {
            runs.remove(&self.run_id);
        }
    }
}

#[async_trait]
impl Journal for NotifyingJournal {
    async fn append(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> Result<(), JournalError> {
        self.journal.append(run_id, epoch, first, events).await?;
        self.tailed.notify(run_id);
        Ok(())
    }

    async fn read(&self, run_id: &str, from: u64) -> Result<Vec<Event>, JournalError> {
        self.journal.read(run_id, from).await
    }

    async fn tail(&self, run_id: &str, from: u64, patience: Duration) -> Result<Vec<Event>, JournalError> {
        let until = Instant::now() + patience;
        // Before the first look, so that nothing that is appended in between is missed.
        let mut tailing = self.tailed.begin(run_id);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let events = tokio::select! {
                biased;
                events = self.journal.tail(run_id, from, left) => events?,
                // The sender lives as long as somebody tails.
                _ = tailing.appends.changed() => self.journal.read(run_id, from).await?,
            };
            if !events.is_empty() || Instant::now() >= until {
                return Ok(events);
            }
        }
    }
}

impl std::fmt::Debug for NotifyingJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotifyingJournal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestRuns;
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_is_woken_by_an_append_without_waiting_for_a_poll() {
        let journal = NotifyingJournal::new(Arc::new(TestRuns::default()));
        let began = Instant::now();
        let mut tail = Box::pin(journal.tail("run_1", 0, Duration::from_secs(60)));
        assert!(tail.as_mut().now_or_never().is_none());
        journal.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        assert_eq!(tail.await, Ok(vec![Event::Cancelled]));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(journal.tailed.0.lock().is_empty(), "nothing is left of the reader");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_finds_what_another_process_appended_and_gives_up_after_its_patience() {
        let store = Arc::new(TestRuns::default());
        let journal = NotifyingJournal::new(store.clone());
        let elsewhere = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            store.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        };
        let (read, ()) = tokio::join!(journal.tail("run_1", 0, Duration::from_secs(60)), elsewhere);
        assert_eq!(read, Ok(vec![Event::Cancelled]));
        let began = Instant::now();
        assert_eq!(journal.tail("run_1", 1, Duration::from_secs(2)).await, Ok(vec![]));
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    }
}
