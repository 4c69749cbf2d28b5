//! What happens to the files of the tools folder, as a list of values: proposed, loaded, refused, replaced,
//! removed.
//!
//! The sources of versions (the folder, a start; later an API or a registry) only propose. A load ends in
//! `Loaded` or `Refused`. Only [`decide`](mod@super::decide) replaces a file's last good version.

use std::sync::Arc;

use crate::error::LoadError;
use crate::folder::memory::FileVersion;

/// Something that happened to one file.
#[derive(Debug, Clone)]
pub(crate) struct FileEvent {
    /// The file's name.
    pub(crate) file: String,
    pub(crate) change: FileChange,
}

#[derive(Debug, Clone)]
pub(crate) enum FileChange {
    /// The memory of an earlier process names this as its last good version.
    Remembered(FileVersion),
    /// A version is being loaded. A load of it that is still under way is given up.
    Proposed {
        /// The number of the listing that proposed it, rising.
        round: u64,
    },
    /// The proposed version can serve.
    Loaded(FileVersion),
    /// The proposed version cannot serve.
    Refused(Arc<LoadError>),
    /// The file's last good version cannot be loaded again.
    Lost,
    /// The file's last good version is this one now; `None` when it has none any more.
    Replaced(Option<FileVersion>),
    /// The file is gone.
    Removed,
}

impl FileEvent {
    pub(crate) fn new(file: impl Into<String>, change: FileChange) -> Self {
        Self { file: file.into(), change }
    }
}
