//! The queue of jobs: agent runs that nobody waits for on a connection.
//!
//! A job is taken by one worker at a time under a lease that the worker renews. When it stops renewing,
//! because it died or lost the store, the job is given to another one, which goes on where the journal ends.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::trace::TraceContext;

/// Name of the queue (interface, Variant B, rule 4).
pub const QUEUE: &str = "agent-tasks";

/// Name of every job in it (interface, Variant B, rule 4).
pub const JOB: &str = "invoke";

/// How often a job is tried before it counts as failed.
pub const ATTEMPTS: u32 = 3;

/// How long a job waits after its first failed attempt; each further one doubles it. Both waits together are longer
/// than the 5 s that a provider may be away without a job being lost, however quickly its attempts fail.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// How long a lease lasts without being renewed. A job of a killed worker has to be taken up again within 10 s
/// (decisions, "A killed worker"), and finding it takes a little as well.
pub const LEASE: Duration = Duration::from_secs(6);

/// How long a lease may go without being renewed before a successor at the same place takes the worker for dead:
/// longer than between two renewals, and within the 2 s after a restart (decisions, "A killed worker").
pub fn missed(lease: Duration) -> Duration {
    lease / 4
}

/// The place in a worker's name, with the separator.
pub fn place_of(worker: &str) -> &str {
    let end = worker.find('#').map_or(worker.len(), |separator| separator + 1);
    worker.get(..end).unwrap_or(worker)
}

/// A queue of jobs, from both sides.
#[async_trait]
pub trait JobQueue: Send + Sync {
    /// Adds a job. When this returns, the job is as safe as the store makes it. The [current trace](crate::trace::current)
    /// is stored with it.
    async fn add(&self, job: &JobData) -> Result<String, QueueError>;

    /// One job, whoever's it is.
    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError>;

    /// A user's jobs, the newest first. A cursor that this queue did not give is [`QueueError::BadCursor`].
    async fn list(&self, wanted: &Wanted<'_>) -> Result<JobPage, QueueError>;

    /// Cancels a job that is not being worked on, or asks whoever works on it to stop: its next
    /// [`Self::renew`] says so.
    async fn cancel(&self, job_id: &str) -> Result<Cancelling, QueueError>;

    /// How many jobs there are.
    async fn depth(&self) -> Result<Depth, QueueError>;

    /// Takes the next job, waiting up to `patience` for one. Jobs whose lease has run out are among them.
    /// `worker` names this process, `place#incarnation`: where it runs, and something that no other process has.
    async fn take(&self, worker: &str, patience: Duration) -> Result<Option<Claim>, QueueError>;

    /// Gives back what other workers at the place of `worker` held and have not renewed for [`missed`] of a lease:
    /// its predecessor, which was killed. One that lives renews more often, so that it keeps its jobs also when it
    /// is still ending, or when two machines go by one name. Says how many jobs there were.
    async fn recover(&self, worker: &str) -> Result<u64, QueueError>;

    /// Makes the lease last [`LEASE`] from now.
    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError>;

    /// Ends an attempt and the lease with it. [`QueueError::LeaseLost`] when somebody else has the job by now:
    /// then nothing is changed.
    async fn finish(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError>;

    /// Closes what is open. Nothing is asked of the queue afterwards.
    async fn close(&self);
}

/// What a job is to do: the payload on the queue (interface, "Async job submission").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobData {
    /// The text to process.
    pub query: String,
    /// Whose job it is. A token's numeric `id` is written as its decimal text.
    pub user_id: String,
}

/// A job as clients read it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Given by the queue.
    pub id: String,
    /// Id of the run that an attempt at it makes or would make, as [`Claim::run_id`].
    pub run_id: String,
    /// Whose job it is.
    pub user_id: String,
    /// Where it stands.
    pub status: JobStatus,
    /// The agent's result as JSON, once completed.
    pub result: Option<Box<RawValue>>,
    /// Why it failed, or failed the last time. Safe to show to its owner.
    pub error: Option<String>,
    /// Attempts that have ended.
    pub attempts_made: u32,
    /// When it was added.
    pub created_at: SystemTime,
    /// When its last attempt began.
    pub started_at: Option<SystemTime>,
    /// When it ended for good.
    pub finished_at: Option<SystemTime>,
}

/// Where a job stands (decisions, "Reading a job").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Waiting for a worker.
    Waiting,
    /// Being worked on.
    Active,
    /// Waiting until its next attempt is due.
    Delayed,
    /// It has a result.
    Completed,
    /// It has none and will not be tried again.
    Failed,
    /// Its owner did not want it any more, and nothing works on it.
    Cancelled,
}

impl JobStatus {
    /// All of them, in the order a job may go through them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Active, Self::Delayed, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status as it stands in JSON, in stores and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Delayed => "delayed",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether nothing will happen to the job any more.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose.
    pub user_id: &'a str,
    /// Only those that stand there.
    pub status: Option<JobStatus>,
    /// How many at most; at least 1.
    pub limit: usize,
    /// [`JobPage::next_cursor`] of the page before.
    pub cursor: Option<&'a str>,
}

/// Some of a user's jobs.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// The jobs, the newest first.
    pub jobs: Vec<Job>,
    /// Where to go on; absent when there are no more.
    pub next_cursor: Option<String>,
}

/// What became of a wish to cancel a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelling {
    /// It was not being worked on and is cancelled now.
    Done,
    /// Whoever works on it has been asked to stop.
    Asked,
    /// It had ended before.
    HadEnded,
    /// Nothing was changed: somebody else's worker holds it, who cannot be told, or it is the next iteration of a
    /// scheduler.
    Refused,
    /// There is no such job.
    Unknown,
}

/// How many jobs there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting for a worker.
    pub waiting: u64,
    /// Being worked on.
    pub active: u64,
    /// Waiting until their next attempt is due.
    pub delayed: u64,
    /// For how long the one that has waited longest has waited.
    pub oldest_waiting: Option<Duration>,
}

/// A job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Id of the job.
    pub job_id: String,
    /// Proves to the queue that the job is held; differs for every taking.
    pub token: String,
    /// Id of its run: the same for every attempt of this job, and of no other job ever, also when the queue
    /// was emptied and counts its ids from 1 again.
    pub run_id: String,
    /// What is to be done, or why nothing can be: what is wrong with a payload that others put there. It becomes the
    /// job's error.
    pub data: Result<JobData, String>,
    /// Attempts that ended before this one.
    pub attempts_made: u32,
    /// When the job was added.
    pub created_at: SystemTime,
    /// The trace in which it was added, if there was one.
    pub trace: Option<TraceContext>,
    /// From when the lease counts, by this process' clock: not later than the store counts it from.
    pub leased_at: Instant,
}

/// What a renewal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Go on.
    Held,
    /// Its owner does not want it any more: stop, then end it with [`AttemptEnd::Cancelled`].
    Cancelled,
    /// Somebody else has it: stop and leave it alone.
    Lost,
}

impl AttemptEnd {
    /// The worker goes away, or its stores did: anybody may take the job.
    pub const HANDED_BACK: Self = Self::HandedBack { delay: Duration::ZERO };
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum AttemptEnd {
    /// With a result: the agent's, as JSON.
    Completed(Box<RawValue>),
    /// Without one.
    Failed {
        /// Why; safe to show to the job's owner.
        error: String,
        /// Whether trying again could help. It is done up to [`ATTEMPTS`] times, or as often as whoever
        /// added the job asked for.
        retry: bool,
    },
    /// The work was stopped on its owner's wish.
    Cancelled,
    /// It was not about the job: no attempt is counted, and the job goes back to the front of the queue, or with a
    /// delay behind those that wait by then.
    HandedBack {
        /// How long nobody may take it; zero when anybody may at once.
        delay: Duration,
    },
}

/// Why the queue could not do it. `detail` holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The store failed.
    #[error("the job queue failed: {detail}")]
    Store {
        /// What the store says.
        detail: String,
    },
    /// The lease of a claim has run out and somebody else has the job.
    #[error("the lease of job {job_id} was lost")]
    LeaseLost {
        /// The job.
        job_id: String,
    },
    /// A cursor that this queue did not give.
    #[error("this is no cursor of a list of jobs")]
    BadCursor,
}
