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

/// [`DEAD_AFTER`] by the clocks of owner and reader, each of which may be wrong by hours: so old is no
/// heartbeat of an owner that lives.
const LONG_DEAD_AFTER: Duration = Duration::from_hours(24);

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

/// A run as that of a job, which is another one's once the job was tried again.
#[derive(Debug, Clone)]
pub(super) struct RunOfJob {
    pub(super) run_id: Arc<str>,
    pub(super) job_id: String,
    pub(super) user_id: String,
}

/// The end of the run of a job, whichever attempts it takes, or that it waits for somebody. Unknown where the
/// job has another run by now.
pub(super) fn of_job(jobs: Jobs, run: RunOfJob) -> Ends {
    async move {
        // The first read waits for nothing: the job may have another run by now.
        let mut wait = Duration::ZERO;
        loop {
            let asked = Instant::now();
            match jobs.read(&run.user_id, &run.job_id, wait).await {
                Ok(None) => return Ending::Unknown,
                Ok(Some(job)) if *job.run_id != *run.run_id => return Ending::Unknown,
                Ok(Some(job)) if job.status.has_ended() => return Ending::Job(Box::new(job)),
                Ok(Some(job)) if job.status == JobStatus::Parked => {
                    return Ending::Parked { job_id: run.job_id };
                }
                // Answered before its time, because this process stops, it would be asked all the time.
                Ok(Some(_)) if asked.elapsed() < wait => sleep(LAST_POLL).await,
                Ok(Some(_)) => sleep(FIRST_POLL.min(wait)).await,
                Err(_store_is_away) => sleep(LAST_POLL).await,
            }
            wait = JOB_WAIT;
        }
    }
    .boxed()
}

/// The end of a job's run that has a record, which tells of the run where the queue does not.
pub(super) fn of_recorded_job(jobs: Jobs, run: RunOfJob, records: Ends) -> Ends {
    async move {
        match of_job(jobs, run).await {
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
                    RecordedState::Job { ends, otherwise } => match (ends.await, otherwise) {
                        (Ending::Unknown, Some(recorded)) => return recorded,
                        // The owner died before the job was added that was to go on with the run.
                        (Ending::Unknown, None) => (Some(SystemTime::UNIX_EPOCH), DEAD_AFTER),
                        (ending, _) => return ending,
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
    /// The job tells of the end, and `otherwise` where the queue knows nothing of the run.
    Job {
        ends: Ends,
        otherwise: Option<Ending>,
    },
    Running(SystemTime),
}

fn judge(record: RunRecord, jobs: Option<&Jobs>) -> RecordedState {
    let RunRecord { id, outcome, job_id, user_id, finished_at, .. } = record;
    let of_its_job = jobs.zip(job_id).map(|(jobs, job_id)| {
        let user_id = user_id.unwrap_or_default();
        of_job(jobs.clone(), RunOfJob { run_id: id.into(), job_id, user_id })
    });
    match outcome {
        RunOutcome::Ended { stop_reason, .. } => RecordedState::Ended(Ending::Recorded(stop_reason)),
        RunOutcome::Failed { kind, error, .. } => match of_its_job {
            // Another attempt may follow.
            Some(ends) => RecordedState::Job { ends, otherwise: Some(Ending::Failed { kind, error }) },
            None => RecordedState::Ended(Ending::Failed { kind, error }),
        },
        RunOutcome::Running => {
            // The run was a request's, until it had to wait for somebody.
            if let Some(ends) = of_its_job {
                return RecordedState::Job { ends, otherwise: None };
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
