//! Jobs that the queue does not keep any more, as the records and journals of their runs show them.
//!
//! What does not belong here: jobs that the queue has. It knows more of them, and what it says holds.

use std::sync::Arc;

use agent_core::agent_loop::{Run, Step};
use agent_core::ports::{JournalError, JournalResult, RunStore};
use agent_core::words::{Catalog, Job, JobStatus, RunOutcome, RunRecord, StopReason};
use serde_json::value::{RawValue, to_raw_value};
use tracing::debug;

/// What the owner is told about a job that failed. The record's own text is the operator's: it names
/// providers.
pub const ERROR_NOT_KEPT: &str = "The job failed; the queue does not keep its error any more.";

/// A job of that user as the record of its last run shows it; nothing when there is no such record.
pub(super) async fn read(runs: &dyn RunStore, user_id: &str, job_id: &str) -> JournalResult<Option<Job>> {
    // Jobs of nobody are nobody's to read.
    if user_id.is_empty() {
        return Ok(None);
    }
    let Some(record) = runs.find_by_job(job_id, user_id).await? else { return Ok(None) };
    let Some(status) = status_of(&record) else { return Ok(None) };
    let result = if status == JobStatus::Completed { result_of(runs, &record.id).await? } else { None };
    Ok(Some(Job {
        id: job_id.to_owned(),
        run_id: record.id,
        user_id: user_id.to_owned(),
        parent: None,
        status,
        result,
        error: (status == JobStatus::Failed).then(|| ERROR_NOT_KEPT.to_owned()),
        // There was one at least; how many before it is not written down.
        attempts_made: 1,
        created_at: record.started_at,
        started_at: Some(record.started_at),
        finished_at: Some(record.finished_at),
    }))
}

/// Where a job stands whose run has this record; nothing where the queue never had it: a run of a request
/// says that it is under way, and the process died that was to hand it over to the job.
fn status_of(record: &RunRecord) -> Option<JobStatus> {
    Some(match &record.outcome {
        RunOutcome::Ended { stop_reason: StopReason::Cancelled, .. } => JobStatus::Cancelled,
        RunOutcome::Ended { .. } => JobStatus::Completed,
        RunOutcome::Failed { .. } => JobStatus::Failed,
        RunOutcome::Running => return None,
    })
}

/// The result that the journal folds to. A journal that is not whole has none: the record was written without
/// it.
async fn result_of(runs: &dyn RunStore, run_id: &str) -> JournalResult<Option<Box<RawValue>>> {
    let events = match runs.read(run_id, 0).await {
        Err(error @ JournalError::Damaged { .. }) => {
            debug!(run_id, %error, "the result of a job cannot be read from its journal");
            return Ok(None);
        }
        read => read?,
    };
    Ok(match Run::resume(events, Arc::new(Catalog::default())) {
        Ok((_run, Step::Done(result))) => to_raw_value(&*result).ok(),
        Ok(_) => None,
        Err(error) => {
            debug!(run_id, %error, "the result of a job cannot be read from its journal");
            None
        }
    })
}
