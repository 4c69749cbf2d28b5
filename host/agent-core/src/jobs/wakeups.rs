//! Wake-ups within the process: which jobs it works on, and which callers wait for one of them to end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Signals between the workers and the callers of one process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct JobSignals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<Entries>,
    /// Somebody began to wait where nobody did.
    first_watcher: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    /// Whether [`JobSignals::notify`] is called for every job that ends, also for those that other processes work on.
    is_followed: bool,
    running: HashMap<String, CancellationToken>,
    watched: HashMap<String, watch::Sender<()>>,
}

/// A job that is being worked on here, until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    signals: JobSignals,
    job_id: String,
    cancel: CancellationToken,
}

/// A caller that waits for a job.
#[derive(Debug)]
pub(super) struct Watcher {
    signals: JobSignals,
    job_id: String,
    attempts: watch::Receiver<()>,
}

impl JobSignals {
    /// An attempt at a job begins.
    pub(super) fn begin(&self, job_id: &str) -> Running {
        let cancel = CancellationToken::new();
        self.lock().running.insert(job_id.to_owned(), cancel.clone());
        Running { signals: self.clone(), job_id: job_id.to_owned(), cancel }
    }

    /// Stops the attempt at a job, if there is one here.
    pub(super) fn cancel(&self, job_id: &str) {
        if let Some(cancel) = self.lock().running.get(job_id) {
            cancel.cancel();
        }
    }

    /// Watches a job from now on.
    pub(super) fn subscribe(&self, job_id: &str) -> Watcher {
        let mut entries = self.lock();
        if entries.watched.is_empty() {
            self.0.first_watcher.notify_one();
        }
        let sender = entries.watched.entry(job_id.to_owned()).or_insert_with(|| watch::channel(()).0);
        let attempts = sender.subscribe();
        Watcher { signals: self.clone(), job_id: job_id.to_owned(), attempts }
    }

    /// Something about a job has changed in the queue.
    pub(super) fn notify(&self, job_id: &str) {
        if let Some(sender) = self.lock().watched.get(job_id) {
            let _ = sender.send(());
        }
    }

    /// Something about any of the jobs may have changed in the queue.
    pub(super) fn notify_all(&self) {
        for sender in self.lock().watched.values() {
            let _ = sender.send(());
        }
    }

    /// Waits until somebody waits for a job.
    pub(super) async fn watched(&self) {
        while !self.is_watched() {
            self.0.first_watcher.notified().await;
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.lock().watched.is_empty()
    }

    /// Says whether from now on [`Self::notify`] is called for every job that ends.
    pub(super) fn follow(&self, is_followed: bool) {
        self.lock().is_followed = is_followed;
    }

    pub(super) fn is_followed(&self) -> bool {
        self.lock().is_followed
    }

    /// Held for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Waits until the attempt is to be stopped on its owner's wish.
    pub(super) async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut entries = self.signals.lock();
        // When the lease was lost, another slot of this process may have begun the next attempt.
        if entries.running.get(&self.job_id) == Some(&self.cancel) {
            entries.running.remove(&self.job_id);
        }
    }
}

impl Watcher {
    /// Waits until something about the job has changed since the last time, or since it is watched.
    pub(super) async fn changed(&mut self) {
        // The sender stays as long as it is watched.
        let _ = self.attempts.changed().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut entries = self.signals.lock();
        // This one is still subscribed.
        if entries.watched.get(&self.job_id).is_some_and(|sender| sender.receiver_count() <= 1) {
            entries.watched.remove(&self.job_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn nothing_is_left_on_the_board_when_everybody_is_gone() {
        let signals = JobSignals::default();
        let (running, first, second) = (signals.begin("1"), signals.subscribe("1"), signals.subscribe("1"));
        drop(first);
        assert_eq!(signals.lock().watched.len(), 1);
        drop((running, second));
        assert!(signals.lock().watched.is_empty() && signals.lock().running.is_empty());
    }

    #[tokio::test]
    async fn a_change_between_two_polls_is_not_missed() {
        let signals = JobSignals::default();
        let mut watcher = signals.subscribe("1");
        assert!(watcher.changed().now_or_never().is_none());
        signals.notify("1");
        signals.notify("2");
        assert!(watcher.changed().now_or_never().is_some());
        assert!(watcher.changed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn the_end_of_an_old_attempt_leaves_the_new_one_on_the_board() {
        let signals = JobSignals::default();
        let (old, new) = (signals.begin("1"), signals.begin("1"));
        drop(old);
        signals.cancel("1");
        assert!(new.cancelled().now_or_never().is_some());
    }
}
