//! Wake-ups within the process: which jobs it works on, and which callers wait for one of them to end.
//!
//! A caller who waits for a job that is worked on here needs nothing from the queue until it is woken
//! ([`JobSignals::is_at_work`]); the queue is followed for the others ([`Watcher::follow`]).

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::loop_driver::Flag;

/// Signals between the workers and the callers of one process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct JobSignals(Arc<SignalTable>);

#[derive(Debug, Default)]
struct SignalTable {
    entries: Mutex<Entries>,
    /// Somebody waits for what another process may do.
    first_follower: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    /// Whether [`JobSignals::notify`] is called for every job that ends, also for those that other processes
    /// work on.
    is_followed: bool,
    running: HashMap<String, Attempt>,
    /// In an order, in which all are told: a simulation repeats it.
    watched: BTreeMap<String, watch::Sender<()>>,
    /// How many callers want the queue to be followed for a job.
    followers: HashMap<String, usize>,
}

impl Entries {
    /// Not for a job that is worked on here meanwhile: whoever waits for it looks again when the attempt has
    /// ended.
    fn is_wanted(&self) -> bool {
        self.followers.keys().any(|job_id| !self.running.contains_key(job_id))
    }
}

/// An attempt at a job, under way in this process.
#[derive(Debug)]
struct Attempt {
    user_id: String,
    cancel: CancellationToken,
}

/// A job that is being worked on here, until this is dropped: its end is told to the queue, and not yet to
/// those who wait.
#[derive(Debug)]
pub(super) struct Running {
    signals: JobSignals,
    job_id: String,
    cancel: CancellationToken,
    /// Set when the model has replied in this attempt.
    pub(super) model_replied: Flag,
}

/// A caller that waits for a job.
#[derive(Debug)]
pub(super) struct Watcher {
    signals: JobSignals,
    job_id: String,
    attempts: watch::Receiver<()>,
    is_follower: bool,
}

impl JobSignals {
    /// An attempt at a job of that user begins. Dropping what this returns ends it and wakes those who wait
    /// for the job.
    pub(super) fn begin(&self, job_id: &str, user_id: &str) -> Running {
        let cancel = CancellationToken::new();
        let attempt = Attempt { user_id: user_id.to_owned(), cancel: cancel.clone() };
        self.0.entries.lock().running.insert(job_id.to_owned(), attempt);
        let (signals, model_replied) = (self.clone(), Flag::default());
        Running { signals, job_id: job_id.to_owned(), cancel, model_replied }
    }

    /// Whether an attempt at a job of that user is under way here. Whoever watched the job before asking is
    /// woken when it has ended.
    pub(super) fn is_at_work(&self, job_id: &str, user_id: &str) -> bool {
        self.0.entries.lock().running.get(job_id).is_some_and(|attempt| attempt.user_id == user_id)
    }

    /// Stops the attempt at a job, if there is one here.
    pub(super) fn cancel(&self, job_id: &str) {
        if let Some(attempt) = self.0.entries.lock().running.get(job_id) {
            attempt.cancel.cancel();
        }
    }

    /// How many jobs there are entries of.
    pub(super) fn len(&self) -> usize {
        let entries = self.0.entries.lock();
        entries.running.len() + entries.watched.len() + entries.followers.len()
    }

    /// Watches a job from now on.
    pub(super) fn subscribe(&self, job_id: &str) -> Watcher {
        let mut entries = self.0.entries.lock();
        let sender = entries.watched.entry(job_id.to_owned()).or_insert_with(|| watch::channel(()).0);
        let attempts = sender.subscribe();
        Watcher { signals: self.clone(), job_id: job_id.to_owned(), attempts, is_follower: false }
    }

    /// Something about a job has changed in the queue.
    pub(super) fn notify(&self, job_id: &str) {
        if let Some(sender) = self.0.entries.lock().watched.get(job_id) {
            let _ = sender.send(());
        }
    }

    /// Something about any of the jobs may have changed in the queue.
    pub(super) fn notify_all(&self) {
        for sender in self.0.entries.lock().watched.values() {
            let _ = sender.send(());
        }
    }

    /// Waits until somebody wants the queue to be followed.
    pub(super) async fn wanted(&self) {
        while !self.is_wanted() {
            self.0.first_follower.notified().await;
        }
    }

    /// Whether somebody wants the queue to be followed.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.entries.lock().is_wanted()
    }

    /// Says whether from now on [`Self::notify`] is called for every job that ends.
    pub(super) fn follow(&self, is_followed: bool) {
        self.0.entries.lock().is_followed = is_followed;
    }

    pub(super) fn is_followed(&self) -> bool {
        self.0.entries.lock().is_followed
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
        let mut entries = self.signals.0.entries.lock();
        // When the lease was lost, another slot of this process may have begun the next attempt.
        if entries.running.get(&self.job_id).is_some_and(|attempt| attempt.cancel == self.cancel) {
            entries.running.remove(&self.job_id);
        }
        // Also when the attempt panicked: those who wait rely on it and look at the job every 20 s only.
        if let Some(sender) = entries.watched.get(&self.job_id) {
            let _ = sender.send(());
        }
    }
}

impl Watcher {
    /// Wants the queue to be followed from now on, because another process may end the job.
    pub(super) fn follow(&mut self) {
        if !std::mem::replace(&mut self.is_follower, true) {
            *self.signals.0.entries.lock().followers.entry(self.job_id.clone()).or_default() += 1;
        }
        self.signals.0.first_follower.notify_one();
    }

    /// Waits until something about the job has changed since the last time, or since it is watched.
    pub(super) async fn changed(&mut self) {
        // The sender stays as long as it is watched.
        let _ = self.attempts.changed().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut entries = self.signals.0.entries.lock();
        if self.is_follower
            && let Some(followers) = entries.followers.get_mut(&self.job_id)
        {
            *followers -= 1;
            if *followers == 0 {
                entries.followers.remove(&self.job_id);
            }
        }
        // The receiver being dropped is still subscribed, so a count of one means that no other is left.
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
        let (running, first, second) =
            (signals.begin("1", "u"), signals.subscribe("1"), signals.subscribe("1"));
        drop(first);
        assert_eq!(signals.0.entries.lock().watched.len(), 1);
        drop((running, second));
        assert!(signals.0.entries.lock().watched.is_empty() && signals.0.entries.lock().running.is_empty());
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
        let (old, new) = (signals.begin("1", "u"), signals.begin("1", "u"));
        drop(old);
        assert!(
            signals.is_at_work("1", "u") && !signals.is_at_work("1", "v") && !signals.is_at_work("2", "u")
        );
        signals.cancel("1");
        assert!(new.cancelled().now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_queue_is_followed_for_as_long_as_somebody_wants_it() {
        let signals = JobSignals::default();
        let (mut first, mut second) = (signals.subscribe("1"), signals.subscribe("2"));
        assert!(signals.wanted().now_or_never().is_none());
        first.follow();
        first.follow();
        second.follow();
        assert!(signals.wanted().now_or_never().is_some());
        drop(first);
        assert!(signals.is_wanted());
        // For as long as the job is worked on here it need not be.
        let running = signals.begin("2", "u");
        assert!(!signals.is_wanted());
        assert!(second.changed().now_or_never().is_none());
        drop(running);
        assert!(signals.is_wanted());
        assert!(second.changed().now_or_never().is_some(), "its end wakes");
        drop(second);
        assert!(!signals.is_wanted() && signals.0.entries.lock().followers.is_empty());
    }
}
