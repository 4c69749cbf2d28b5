//! The history of runs: an append-only list of events per run.

use async_trait::async_trait;

use crate::words::Event;

/// Stores the events of runs. A run is whatever its events say when they are folded.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends the event with that number, counted from 0 within the run. When this returns, the event is
    /// as safe as the store makes it.
    async fn append(&self, run_id: &str, sequence: u64, event: &Event) -> Result<(), JournalError>;

    /// Every event of a run in order; empty when the run is unknown.
    async fn read(&self, run_id: &str) -> Result<Vec<Event>, JournalError>;
}

/// Why a journal could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The store failed.
    #[error("the run journal failed: {detail}")]
    Store {
        /// What the store says.
        detail: String,
    },
    /// The event with that number is already there: two workers drive one run.
    #[error("run {run_id} already has an event number {sequence}")]
    Conflict {
        /// The run.
        run_id: String,
        /// The number both wanted.
        sequence: u64,
    },
}
