//! Notices that the tools folder changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How often the folder is looked at even if nothing was noticed: file systems over the network notice
/// nothing, and a folder that did not exist cannot be watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long to wait for more changes after the first: a copy is many writes.
const SETTLE: Duration = Duration::from_millis(20);

/// Watches one folder.
pub(crate) struct Watch {
    changed: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { changed: Arc::new(Notify::new()), watcher: None }
    }

    /// Waits until the folder may have changed.
    pub(crate) async fn changed(&mut self, folder: &Path) {
        if self.watcher.is_none() {
            self.watcher = start(folder, self.changed.clone())
                .inspect_err(|error| tracing::debug!(%error, "the tools folder is polled, not watched"))
                .ok();
        }
        let noticed = tokio::time::timeout(INTERVAL, self.changed.notified()).await.is_ok();
        if noticed {
            tokio::time::sleep(SETTLE).await;
        } else if !folder.is_dir() {
            // A folder that is made anew needs a new watch.
            self.watcher = None;
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
