//! How a reader of a run learns that it has ended: from its owner in this process, from its job, or from its
//! record.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::backoff::Backoff;
use agent_core::ports::RunStore;
use agent_core::words::{FailureKind, Job, JobStatus, RunOutcome, RunRecord, StopReason};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::clock;
use crate::jobs::Jobs;
use crate::layers::InvokeResult;
use crate::runs::RunHandle;

/// How often a record is read of a run that is under way elsewhere: soon at first, then less and less often.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);

/// How long the record of a run may go without a heartbeat, by the reader's clock. With the interval between
/// two heartbeats and that of the polls the readers of a killed owner are told within 10 s.
const DEAD_AFTER: Duration = Duration::from_secs(7);

/// [`DEAD_AFTER`] by the owner's clock, which may go wrong: so old is no heartbeat of an owner that lives.
const LONG_DEAD_AFTER: Duration = Duration::from_mins(5);

/// How long a run may have no record: one of a job has none before its first attempt has ended.
const UNKNOWN_AFTER: Duration = Duration::from_mins(1);

/// How long one question after a job is held back.
const JOB_WAIT: Duration = Duration::from_secs(5);

/// What a reader is told at the end.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    /// By the owner in this process.
    Outcome(InvokeResult),
    /// By the record, of a run that has a result.
    Recorded(StopReason),
    /// By the record, of a run without a result.
    Failed { kind: FailureKind, error: String },
    /// By the queue.
    Job(Box<Job>),
    /// By the queue, of a run that waits for somebody.
    Parked { job_id: String },
    /// The owner's heartbeat has stopped.
    Dead,
    /// Nobody knows: another look later may tell.
    Unknown,
}

pub(super) type Ends = BoxFuture<'static, Ending>;

/// The end of a run of this process.
pub(super) fn of_handle(handle: RunHandle) -> Ends {
    async move { Ending::Outcome(handle.result().await) }.boxed()
}

/// The end of a job, whichever attempts it takes, or that its run waits for somebody.
pub(super) fn of_job(jobs: Jobs, user_id: String, job_id: String) -> Ends {
    async move {
        loop {
            match jobs.read(&user_id, &job_id, JOB_WAIT).await {
                Ok(Some(job)) if job.status.has_ended() => return Ending::Job(Box::new(job)),
                Ok(Some(job)) if job.status == JobStatus::Parked => {
                    return Ending::Parked { job_id };
                }
                Ok(None) => return Ending::Unknown,
                Ok(Some(_)) => sleep(FIRST_POLL).await,
                Err(_store_is_away) => sleep(LAST_POLL).await,
            }
        }
    }
    .boxed()
}

/// The end of a job whose run has a record, which tells of the run where the queue does not know the job.
pub(super) fn of_recorded_job(jobs: Jobs, user_id: String, job_id: String, records: Ends) -> Ends {
    async move {
        match of_job(jobs, user_id, job_id).await {
            Ending::Unknown => records.await,
            ending => ending,
        }
    }
    .boxed()
}

/// The end of a run that some process carries. Jobs are asked when the record is an attempt's.
pub(super) fn of_record(records: Arc<dyn RunStore>, jobs: Option<Jobs>, run_id: Arc<str>) -> Ends {
    async move {
        let mut polls = Backoff::new(FIRST_POLL, LAST_POLL);
        let (mut heartbeat, mut since) = (None, Instant::now());
        loop {
            let (beat, limit) = match records.find(&run_id).await {
                Ok(Some(record)) => match judge(record, jobs.as_ref()) {
                    RecordedState::Ended(ending) => return ending,
                    RecordedState::Job(ends) => match ends.await {
                        // The owner died before the job was added that was to go on with the run.
                        Ending::Unknown => (Some(SystemTime::UNIX_EPOCH), DEAD_AFTER),
                        ending => return ending,
                    },
                    RecordedState::Running(beat) => (Some(beat), DEAD_AFTER),
                },
                Ok(None) => (None, UNKNOWN_AFTER),
                Err(_store_is_away) => {
                    // Nobody can tell the owner's silence from the store's.
                    since = Instant::now();
                    (heartbeat, UNKNOWN_AFTER)
                }
            };
            if beat != heartbeat {
                (heartbeat, since) = (beat, Instant::now());
            }
            if since.elapsed() >= limit {
                return if beat.is_some() { Ending::Dead } else { Ending::Unknown };
            }
            sleep(polls.next()).await;
        }
    }
    .boxed()
}

enum RecordedState {
    Ended(Ending),
    Job(Ends),
    Running(SystemTime),
}

fn judge(record: RunRecord, jobs: Option<&Jobs>) -> RecordedState {
    let RunRecord { outcome, job_id, user_id, finished_at, .. } = record;
    match outcome {
        RunOutcome::Ended { stop_reason, .. } => RecordedState::Ended(Ending::Recorded(stop_reason)),
        RunOutcome::Failed { kind, error, .. } => match (jobs, job_id) {
            // Another attempt may follow.
            (Some(jobs), Some(job_id)) => {
                RecordedState::Job(of_job(jobs.clone(), user_id.unwrap_or_default(), job_id))
            }
            _ => RecordedState::Ended(Ending::Failed { kind, error }),
        },
        RunOutcome::Running => {
            // The run was a request's, until it had to wait for somebody.
            if let (Some(jobs), Some(job_id)) = (jobs, job_id) {
                return RecordedState::Job(of_job(jobs.clone(), user_id.unwrap_or_default(), job_id));
            }
            let age = clock::now().duration_since(finished_at).unwrap_or_default();
            if age >= LONG_DEAD_AFTER {
                RecordedState::Ended(Ending::Dead)
            } else {
                RecordedState::Running(finished_at)
            }
        }
    }
}
