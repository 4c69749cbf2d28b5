//! Notices that the tools folder changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Interval of polling beside the watch: file systems over the network report no changes, and a folder that does not
/// exist cannot be watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long to wait for more changes after the first: a copy is many writes.
const SETTLE: Duration = Duration::from_millis(20);

/// Watches one folder.
pub(crate) struct Watch {
    changed: Arc<Notify>,
    /// `None` as long as the folder cannot be watched, or may hang.
    watcher: Option<RecommendedWatcher>,
    /// Device and inode of the folder that is watched.
    watched: Option<(u64, u64)>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { changed: Arc::new(Notify::new()), watcher: None, watched: None }
    }

    /// Watches the folder of that identity, if it is not watched yet: the folder under a path may be replaced by
    /// another. Starts the watch on a blocking thread, because a mount may hang.
    pub(crate) async fn follow(&mut self, folder: &Path, identity: (u64, u64)) {
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
    pub(crate) async fn changed(&self) {
        if tokio::time::timeout(INTERVAL, self.changed.notified()).await.is_ok() {
            tokio::time::sleep(SETTLE).await;
        }
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
