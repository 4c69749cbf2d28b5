//! The latest progress of the calls that a watched run has under way. It goes beside the queue of events: who
//! does not keep up misses reports and no event, and reads the latest when it is back.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::words::CallProgress;
use tokio::sync::watch;

/// The calls under way that have reported, by the id that the service gave them.
#[derive(Debug, Default)]
pub(super) struct LatestReports {
    /// How many reports there were.
    version: u64,
    calls: BTreeMap<Arc<str>, (u64, Arc<CallProgress>)>,
}

impl LatestReports {
    pub(super) fn report(&mut self, call_id: Arc<str>, progress: CallProgress) {
        self.version += 1;
        self.calls.insert(call_id, (self.version, Arc::new(progress)));
    }

    pub(super) fn remove(&mut self, call_id: &str) {
        self.calls.remove(call_id);
    }
}

/// One watcher's view of the board.
#[derive(Debug)]
pub(super) struct ReportsReader {
    board: watch::Receiver<LatestReports>,
    seen: u64,
}

impl ReportsReader {
    /// Begins with what the board says now.
    pub(super) fn new(sender: &watch::Sender<LatestReports>) -> Self {
        let mut board = sender.subscribe();
        board.mark_changed();
        Self { board, seen: 0 }
    }

    /// What was reported since this was asked last, the latest of each call. Cancellation-safe. Never
    /// resolves when nobody writes any more.
    pub(super) async fn next(&mut self) -> Vec<Arc<CallProgress>> {
        loop {
            if self.board.changed().await.is_err() {
                return std::future::pending().await;
            }
            let board = self.board.borrow_and_update();
            let seen = std::mem::replace(&mut self.seen, board.version);
            let mut new: Vec<_> = board.calls.values().filter(|(version, _)| *version > seen).collect();
            new.sort_unstable_by_key(|(version, _)| *version);
            if !new.is_empty() {
                return new.into_iter().map(|(_, progress)| progress.clone()).collect();
            }
        }
    }
}
