//! How far a call of a tool has got.

use std::sync::Arc;

/// What a tool reports while it runs. It is in no journal and no result: only who watches reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolProgress {
    /// The tool's words, as they may be shown: [`Self::MOST_BYTES`] at most, without control characters and
    /// secrets.
    pub message: Arc<str>,
    /// How much of the work is done, from 0 to 1, if the tool says so.
    pub fraction: Option<f64>,
}

impl ToolProgress {
    /// About how long a message is at most, in bytes.
    pub const MOST_BYTES: usize = 512;
}

/// A report, and the call that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallProgress {
    /// How many events the run's journal had when the calls of that reply were begun: who has read as many
    /// knows the call.
    pub number: u64,
    /// Where the call stands in its reply, counted from 0. A call that a tool makes has that of the calling
    /// one.
    pub index: usize,
    /// The call's id within the reply, as the model named it, or the calling one's.
    pub id: String,
    /// The tool that reports.
    pub name: String,
    /// What it reports.
    pub progress: ToolProgress,
}
