//! Which file a SQLite database was opened in. Connections keep a file that is removed, and those that are
//! opened later find another one at its path: what is written then is lost or lies in two files.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// The error about a file that is gone. It holds no path, because health reports show it.
pub(super) const REPLACED: &str =
    "the database file was removed or replaced while it was open: put the right one back and restart";

/// The file at a path, as it was when the tables were made or found there.
#[derive(Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    /// Device and inode, which no two files have at the same time.
    identity: OnceLock<(u64, u64)>,
    was_replaced: AtomicBool,
    /// Held while a thread looks at the path.
    looking: Arc<Mutex<()>>,
}

impl OpenedFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: OnceLock::new(),
            was_replaced: AtomicBool::new(false),
            looking: Arc::default(),
        }
    }

    /// Remembers the file that is there now, once. A database in memory has none.
    pub(super) fn remember(&self) {
        // silent-ok: a path that cannot be looked at is not compared with either.
        if let Ok(found) = fs::metadata(&self.path) {
            self.identity.get_or_init(|| identity(&found));
        }
    }

    /// True once the path names no file or another one, and from then on: connections may be divided between
    /// both files, and the inode of a removed one is given to the next.
    ///
    /// A mount that does not answer holds one thread beside those that serve, however often it is asked:
    /// whoever asks gives up before.
    pub(super) async fn is_replaced(self: &Arc<Self>) -> bool {
        let Some(opened) = self.identity.get().copied() else { return false };
        let (file, looking) = (self.clone(), self.looking.clone().lock_owned().await);
        let looked = spawn_blocking(move || {
            let _one_at_a_time = looking;
            file.look(opened)
        });
        // Without an answer this process is ending.
        looked.await.unwrap_or(false)
    }

    /// Compares what is at the path with what was opened. Blocks.
    fn look(&self, opened: (u64, u64)) -> bool {
        let is_replaced = match fs::metadata(&self.path) {
            Ok(found) => identity(&found) != opened,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if is_replaced && !self.was_replaced.swap(true, Ordering::Relaxed) {
            tracing::error!(file = %self.path.display(), "{REPLACED}");
        }
        self.was_replaced.load(Ordering::Relaxed)
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
