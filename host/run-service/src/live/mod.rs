//! Runs under way, as the readers of this process watch them: what was appended to their journals, at once
//! and without asking the store, and what no journal has: the words of a reply while the model writes them,
//! and the progress of calls.
//!
//! ```text
//! LiveJournal ────┬─> LiveRuns ──broadcast──> any number of Watchers per run
//!                 │   (append, then tell)              │
//! driver ──words──┼────────────the reply so far────────┤   (`deltas.rs`, `reply.rs`)
//! driver ─reports─┴────────────latest of each call─────┘   (`progress.rs`)
//! ```
//!
//! A run that nobody watches costs one look-up per append. A watcher that does not keep up with the events is
//! told so ([`broadcast::error::RecvError::Lagged`]) and reads the journal instead. Runs of other processes
//! are not seen here.

mod deltas;
mod journal;
mod progress;
mod reply;
mod reports;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{broadcast, watch};

pub use deltas::ReplyDeltas;
pub use journal::LiveJournal;
pub use reply::NewText;
pub use reports::CallReports;

use agent_core::words::{CallProgress, Event};
use progress::{LatestReports, ReportsReader};
use reply::{ReplyReader, ReplyText};

/// How many appends a watcher may be behind, each of a few events.
const MOST_BEHIND: usize = 32;

/// The runs that somebody in this process watches. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LiveRuns(Arc<Mutex<HashMap<Arc<str>, Watched>>>);

/// What the watchers of a run are told through.
#[derive(Debug)]
struct Watched {
    stored: broadcast::Sender<Stored>,
    reply: watch::Sender<ReplyText>,
    progress: watch::Sender<LatestReports>,
}

/// Events that are in the journal.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The number of the first.
    pub first: u64,
    /// The events, from number `first` on.
    pub events: Arc<[Event]>,
}

/// What watchers are told.
#[derive(Debug, Clone)]
pub enum Live {
    /// Events are in the journal.
    Stored(Stored),
    /// The model goes on writing.
    Reply(NewText),
    /// Tools go on: the latest report of each call that has made one since.
    Progress(Vec<Arc<CallProgress>>),
}

/// A part of a reply that is not in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(Arc<str>),
    /// The text of this reply so far does not count: the call failed and is made again, or this reader came
    /// in the middle of it and all of it follows.
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
    stored: broadcast::Receiver<Stored>,
    reply: ReplyReader,
    progress: ReportsReader,
}

impl LiveRuns {
    /// Watches a run from now on, whether it is under way or not.
    pub fn watch(&self, run_id: &str) -> Watcher {
        let run_id: Arc<str> = run_id.into();
        let mut watched = self.0.lock();
        let run = watched.entry(run_id.clone()).or_insert_with(|| Watched {
            stored: broadcast::channel(MOST_BEHIND).0,
            reply: watch::channel(ReplyText::default()).0,
            progress: watch::channel(LatestReports::default()).0,
        });
        let (reply, progress) = (ReplyReader::new(&run.reply), ReportsReader::new(&run.progress));
        Watcher { runs: self.clone(), run_id, stored: run.stored.subscribe(), reply, progress }
    }

    /// How many runs somebody watches.
    pub fn watched(&self) -> usize {
        self.0.lock().len()
    }

    /// The side of a run that tells of it.
    pub fn run(&self, run_id: &str) -> LiveRun {
        LiveRun { runs: self.clone(), run_id: run_id.into() }
    }

    fn tell(&self, run_id: &str, stored: impl FnOnce() -> Stored) {
        if let Some(watched) = self.0.lock().get(run_id) {
            // Sending fails when nobody watches any more.
            let _ = watched.stored.send(stored());
        }
    }

    fn is_watched(&self, run_id: &str) -> bool {
        self.0.lock().contains_key(run_id)
    }
}

impl Watcher {
    /// The next message. Cancellation-safe. An error when this watcher did not keep up. Words and progress
    /// come after every event that was told before them, so that their reader knows the calls that are under
    /// way.
    pub async fn next(&mut self) -> Result<Live, broadcast::error::RecvError> {
        tokio::select! {
            biased;
            stored = self.stored.recv() => stored.map(Live::Stored),
            new = self.reply.next() => Ok(Live::Reply(new)),
            progress = self.progress.next() => Ok(Live::Progress(progress)),
        }
    }

    /// What this watcher was not told of the reply whose event has that number, now that its whole text is
    /// known: to be given before the event. Nothing of a reply that was not written while this watched.
    pub fn rest_of_reply(&mut self, number: u64, content: &str) -> Option<NewText> {
        self.reply.rest(number, content)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.runs.0.lock();
        // The receiver being dropped is still subscribed, so a count of one means that no other is left.
        if watched.get(&self.run_id).is_some_and(|run| run.stored.receiver_count() <= 1) {
            watched.remove(&self.run_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::ports::Deltas as _;

    use super::*;

    fn told(runs: &LiveRuns, first: u64) {
        runs.tell("run_1", || Stored { first, events: [Event::HandedBack].into() });
    }

    #[tokio::test]
    async fn every_watcher_is_told_the_same_and_nothing_is_left_of_those_who_went() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        assert!(run.deltas(1).is_none(), "nobody watches");
        let (mut first, mut second) = (runs.watch("run_1"), runs.watch("run_1"));
        run.deltas(1).unwrap().text("a");
        told(&runs, 0);
        for watcher in [&mut first, &mut second] {
            let told = (watcher.next().await.unwrap(), watcher.next().await.unwrap());
            let (Live::Stored(Stored { first: 0, .. }), Live::Reply(NewText { number: 1, text, .. })) = told
            else {
                panic!("{told:?}")
            };
            assert_eq!(&*text, "a");
        }
        drop(first);
        assert!(runs.is_watched("run_1"));
        drop(second);
        assert!(!runs.is_watched("run_1") && runs.0.lock().is_empty());
    }

    #[tokio::test]
    async fn a_watcher_that_does_not_keep_up_is_told_so() {
        let runs = LiveRuns::default();
        let mut slow = runs.watch("run_1");
        (0..=MOST_BEHIND as u64).for_each(|first| told(&runs, first));
        assert!(matches!(slow.next().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
