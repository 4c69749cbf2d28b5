//! Runs under way, as the readers of this process watch them: what was appended to their journals, at once and without
//! asking the store, and what no journal has: the words of a reply while the model writes them, and the progress of calls.
//!
//! ```text
//! driver ──words──┐
//!                 ├─> LiveRuns ──broadcast──> any number of Watchers per run
//! LiveJournal ────┤   (append, then tell)              │
//! driver ─reports─┴────────────latest of each call─────┘   (`progress.rs`)
//! ```
//!
//! A run that nobody watches costs one look-up per append. A watcher that does not keep up is told so
//! ([`broadcast::error::RecvError::Lagged`]) and reads the journal instead. Runs of other processes are not seen here.

mod journal;
mod progress;
mod reports;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

pub use journal::LiveJournal;
pub use reports::CallReports;

use crate::ports::Deltas;
use crate::words::{CallProgress, Event};
use progress::{LatestReports, ReportsReader};

/// How many messages a watcher may be behind. They hold words of one reply or a few events each.
const MOST_BEHIND: usize = 128;

/// The runs that somebody in this process watches. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LiveRuns(Arc<Mutex<HashMap<Arc<str>, Watched>>>);

/// What the watchers of a run are told through.
#[derive(Debug)]
struct Watched {
    told: broadcast::Sender<Live>,
    progress: watch::Sender<LatestReports>,
}

/// What watchers are told.
#[derive(Debug, Clone)]
pub enum Live {
    /// Events are in the journal.
    Stored {
        /// The number of the first.
        first: u64,
        /// They themselves.
        events: Arc<[Event]>,
    },
    /// The model goes on writing.
    Delta {
        /// The number that the reply's event will have.
        number: u64,
        /// What it wrote.
        delta: Delta,
    },
    /// Tools go on: the latest report of each call that has made one since.
    Progress(Vec<Arc<CallProgress>>),
}

/// A part of a reply that is not in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(Arc<str>),
    /// The text of this reply so far does not count: the call failed and is made again.
    Reset,
}

/// The side of a run that tells of it.
#[derive(Debug, Clone)]
pub struct LiveRun {
    runs: LiveRuns,
    run_id: Arc<str>,
}

/// The side that is told, until this is dropped.
#[derive(Debug)]
pub struct Watcher {
    runs: LiveRuns,
    run_id: Arc<str>,
    told: broadcast::Receiver<Live>,
    progress: ReportsReader,
}

impl LiveRuns {
    /// Watches a run from now on, whether it is under way or not.
    pub fn watch(&self, run_id: &str) -> Watcher {
        let run_id: Arc<str> = run_id.into();
        let mut watched = self.lock();
        let run = watched.entry(run_id.clone()).or_insert_with(|| Watched {
            told: broadcast::channel(MOST_BEHIND).0,
            progress: watch::channel(LatestReports::default()).0,
        });
        let (told, progress) = (run.told.subscribe(), ReportsReader::new(&run.progress));
        Watcher { runs: self.clone(), run_id, told, progress }
    }

    /// The side of a run that tells of it.
    pub fn run(&self, run_id: &str) -> LiveRun {
        LiveRun { runs: self.clone(), run_id: run_id.into() }
    }

    fn tell(&self, run_id: &str, live: impl FnOnce() -> Live) {
        if let Some(watched) = self.lock().get(run_id) {
            // It fails when nobody watches any more.
            let _ = watched.told.send(live());
        }
    }

    fn is_watched(&self, run_id: &str) -> bool {
        self.lock().contains_key(run_id)
    }

    /// Held for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRun {
    /// Where a reply goes while it is written, if anybody watches; `number` is the one that its event will have.
    pub fn deltas(&self, number: u64) -> Option<ReplyDeltas<'_>> {
        self.runs.is_watched(&self.run_id).then_some(ReplyDeltas { run: self, number })
    }
}

/// Tells the watchers of a run what the model writes.
#[derive(Debug)]
pub struct ReplyDeltas<'a> {
    run: &'a LiveRun,
    number: u64,
}

impl ReplyDeltas<'_> {
    fn tell(&self, delta: impl FnOnce() -> Delta) {
        let LiveRun { runs, run_id } = self.run;
        runs.tell(run_id, || Live::Delta { number: self.number, delta: delta() });
    }
}

impl Deltas for ReplyDeltas<'_> {
    fn text(&self, text: &str) {
        self.tell(|| Delta::Text(text.into()));
    }

    fn reset(&self) {
        self.tell(|| Delta::Reset);
    }
}

impl Watcher {
    /// The next message. Cancellation-safe. An error when this watcher did not keep up. Progress comes after every event
    /// that was told before it, so that its reader knows the calls that are under way.
    pub async fn next(&mut self) -> Result<Live, broadcast::error::RecvError> {
        tokio::select! {
            biased;
            told = self.told.recv() => told,
            progress = self.progress.next() => Ok(Live::Progress(progress)),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.runs.lock();
        // This one is still subscribed.
        if watched.get(&self.run_id).is_some_and(|run| run.told.receiver_count() <= 1) {
            watched.remove(&self.run_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_watcher_is_told_the_same_and_nothing_is_left_of_those_who_went() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        assert!(run.deltas(1).is_none(), "nobody watches");
        let (mut first, mut second) = (runs.watch("run_1"), runs.watch("run_1"));
        let deltas = run.deltas(1).unwrap();
        deltas.text("a");
        deltas.reset();
        for watcher in [&mut first, &mut second] {
            let told = (watcher.next().await.unwrap(), watcher.next().await.unwrap());
            let (Live::Delta { number: 1, delta: Delta::Text(text) }, Live::Delta { delta, .. }) = told
            else {
                panic!("{told:?}")
            };
            assert_eq!((&*text, delta), ("a", Delta::Reset));
        }
        drop(first);
        assert!(runs.is_watched("run_1"));
        drop(second);
        assert!(!runs.is_watched("run_1") && runs.lock().is_empty());
    }

    #[tokio::test]
    async fn a_watcher_that_does_not_keep_up_is_told_so() {
        let runs = LiveRuns::default();
        let mut slow = runs.watch("run_1");
        let run = runs.run("run_1");
        for _ in 0..=MOST_BEHIND {
            run.deltas(1).unwrap().text("a");
        }
        assert!(matches!(slow.next().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
