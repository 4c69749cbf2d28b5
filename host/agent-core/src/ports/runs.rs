//! The records of runs: one line about each, beside its journal.

use async_trait::async_trait;

use super::journal::{Journal, JournalError};
use crate::words::RunRecord;

/// Keeps runs: their journals, and a record of each.
#[async_trait]
pub trait RunStore: Journal {
    /// Writes a record, or writes it anew when the run has one already.
    async fn save(&self, record: &RunRecord) -> Result<(), JournalError>;

    /// The record of a run.
    async fn find(&self, run_id: &str) -> Result<Option<RunRecord>, JournalError>;
}
