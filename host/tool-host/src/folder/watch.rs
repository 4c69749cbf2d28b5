//! Notices that the tools folder changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Which folder it is, whatever its path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FolderId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Interval of polling beside the watch: file systems over the network report no changes, and a folder that
/// does not exist cannot be watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long to wait for more changes after the first: a copy is many writes.
const SETTLE: Duration = Duration::from_millis(20);

pub(crate) struct Watch {
    changed: Arc<Notify>,
    /// `None` as long as the folder cannot be watched, or may hang.
    watcher: Option<RecommendedWatcher>,
    /// Device and inode of the folder that is watched.
    watched: Option<FolderId>,
    next_poll: Instant,
    /// When a change that was noticed has settled.
    settled: Option<Instant>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let next_poll = Instant::now() + INTERVAL;
        Self { changed: Arc::new(Notify::new()), watcher: None, watched: None, next_poll, settled: None }
    }

    /// Watches the folder of that identity, if it is not watched yet: the folder under a path may be replaced
    /// by another. Starts the watch on a blocking thread, because a mount may hang.
    pub(crate) async fn follow(&mut self, folder: &Path, identity: FolderId) {
        if self.watched == Some(identity) {
            return;
        }
        self.watched = Some(identity);
        let (folder, changed) = (folder.to_owned(), self.changed.clone());
        let begun = tokio::task::spawn_blocking(move || start(&folder, changed));
        let begun = match tokio::time::timeout(INTERVAL, begun).await {
            Ok(Ok(begun)) => begun.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err("it does not answer".to_owned()),
        };
        self.watcher =
            begun.inspect_err(|error| tracing::debug!(error, "the tools folder is polled, not watched")).ok();
        // What changed before the watch began was not noticed.
        self.changed.notify_one();
    }

    /// Waits until the folder may have changed.
    ///
    /// Cancellation-safe: what was noticed is not forgotten, and the next poll comes no later.
    pub(crate) async fn changed(&mut self) {
        let settled = match self.settled {
            Some(settled) => settled,
            None => {
                let noticed = tokio::time::timeout_at(self.next_poll, self.changed.notified()).await.is_ok();
                let settled = Instant::now() + if noticed { SETTLE } else { Duration::ZERO };
                *self.settled.insert(settled)
            }
        };
        tokio::time::sleep_until(settled).await;
        (self.settled, self.next_poll) = (None, Instant::now() + INTERVAL);
    }
}

fn start(folder: &Path, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Our own reading of the files must not wake us again.
        if !event.is_ok_and(|event| is_only_reading(event.kind)) {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

fn is_only_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
