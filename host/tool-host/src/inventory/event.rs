//! What happens to the files of the tools folder, as a list of values: proposed, loaded, refused, replaced, removed.
//!
//! Whoever has something to load (the folder, a start; an API or a registry could) only proposes. FileLoads ends in `Loaded`
//! or `Refused`. `Replaced` alone says that a file's last good version is another one now, and only
//! [`decide`](super::decide) makes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// One version of a component, as far as decisions need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// `sha256:…` of the component's bytes.
    pub(crate) digest: String,
    /// Names of its tools.
    pub(crate) tools: BTreeSet<String>,
    /// Bytes that its tools add to every model call.
    pub(crate) prompt_bytes: u64,
}

/// Something that happened to one file.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The file's name.
    pub(crate) file: String,
    /// What happened.
    pub(crate) change: Change,
}

/// What happened to a file.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// This was its last good version before a restart.
    Remembered(Version),
    /// A version is being loaded. Takes the place of a proposal that is still being loaded.
    Proposed {
        /// Proposals of one look at the folder have one number, later ones a higher one.
        round: u64,
    },
    /// The proposed version can serve.
    Loaded(Version),
    /// The proposed version cannot serve.
    Refused(Arc<LoadError>),
    /// Its last good version cannot be loaded again.
    Lost,
    /// Its last good version is another one now; nothing when it has none any more.
    Replaced(Option<Version>),
    /// It is gone.
    Removed,
}

impl Event {
    pub(crate) fn new(file: impl Into<String>, change: Change) -> Self {
        Self { file: file.into(), change }
    }
}
