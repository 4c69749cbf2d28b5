//! The records of runs: one line about each, beside its journal.

use boxed_async::boxed_async;

use super::journal::{Epoch, Journal, JournalResult};
use crate::words::{Event, RunQuery, RunRecord};

/// Keeps runs: their journals, and a record of each.
#[boxed_async]
pub trait RunStore: Journal {
    /// Writes a record, or writes it anew when the run has one already.
    ///
    /// A record may arrive when its writer has given it up: a heartbeat behind the last record of its owner,
    /// or the failure of an attempt behind the end to which a later attempt came. One that is behind the
    /// record that is kept ([`RunRecord::is_behind`]) is not written, and that is no error.
    async fn save(&self, record: &RunRecord) -> JournalResult;

    /// Appends events to the run of a record as [`Journal::append`] does, and then writes the record. Nothing
    /// is written of the record when the events are refused. Repeated, it comes to the same. The end of a run
    /// that nobody claims ([`Epoch::UNCLAIMED`]) is written behind its answer: a store need not flush it
    /// before this returns.
    ///
    /// This implementation does one after the other; a store that commits both together does better.
    async fn append_and_save(
        &self,
        epoch: Epoch,
        first: u64,
        events: &[Event],
        record: &RunRecord,
    ) -> JournalResult {
        if !events.is_empty() {
            self.append(&record.id, epoch, first, events).await?;
        }
        self.save(record).await
    }

    /// The record of a run.
    async fn find(&self, run_id: &str) -> JournalResult<Option<RunRecord>>;

    /// Records, the one that ended last first; of those that ended at one time, the one with the highest id.
    async fn list(&self, wanted: &RunQuery<'_>) -> JournalResult<Vec<RunRecord>>;

    /// The record of the run of that job of that user which ended last. A queue that was emptied may count
    /// its ids from 1 again, so jobs of several users may have had that id.
    async fn find_by_job(&self, job_id: &str, user_id: &str) -> JournalResult<Option<RunRecord>>;
}
