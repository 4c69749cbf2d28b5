//! The queue of jobs: agent runs that nobody waits for on a connection.
//!
//! A job is claimed by one worker at a time under a [lease](super::lease) that the worker renews (its
//! heartbeat). When it stops renewing, because it died or lost the store, the job is given to another one,
//! which goes on where the journal ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use boxed_async::boxed_async;
use serde_json::value::RawValue;

use super::journal::{Epoch, JournalError};
use super::lease::Renewal;
use crate::trace::TraceContext;
use crate::words::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, OpenKinds, RetryOutcome};

/// Name of the queue (host/docs/interface/endpoints.md#variant-b).
pub const QUEUE: &str = "agent-tasks";

/// Name of every job in it (host/docs/interface/endpoints.md#variant-b).
pub const JOB: &str = "invoke";

/// How often a job is tried before it counts as failed.
pub const ATTEMPTS: u32 = 3;

/// How many workers may die of one run of a job before that fails, and twice as many of one that is to be
/// cancelled. One that kills its process, while its journal is read for instance, would otherwise do so for
/// ever; jobs that are merely unlucky, on a machine that keeps being restarted, are not meant.
pub const MOST_LOSSES: u32 = 20;

/// How long a job waits after its first failed attempt; each further one doubles it. Both waits together are
/// longer than the 5 s that a provider may be away without a job being lost, however quickly its attempts
/// fail.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// How long a lease lasts without being renewed. A job of a killed worker has to be taken up again within 10
/// s (host/docs/interface/decisions-runs.md#durability), and finding it takes a little as well.
pub const LEASE: Duration = Duration::from_secs(6);

/// How long a lease may go without a heartbeat before a successor at the same address takes the worker for
/// dead (stalled): longer than between two renewals, and within the 2 s after a restart
/// (host/docs/interface/decisions-runs.md#durability).
pub fn stalled_after(lease: Duration) -> Duration {
    lease / 4
}

/// The address in a worker's name `address#incarnation`, with the separator.
pub fn address_of(worker: &str) -> &str {
    let end = worker.find('#').map_or(worker.len(), |separator| separator + 1);
    worker.get(..end).unwrap_or(worker)
}

/// A queue of jobs, from both sides.
#[boxed_async]
pub trait JobQueue: Send + Sync {
    /// Adds a job. When this returns, the job is as safe as the store makes it. The [current
    /// trace](crate::trace::current) is stored with it. A job under an id that there is already is that job,
    /// wherever it stands by then, cancelled or ended included: nothing is added or changed.
    async fn add(&self, job: &JobData) -> Result<String, QueueError>;

    /// Whether every worker of the queue knows the [options](JobData::options) of jobs. Where programs work
    /// that read the payload only, a job with options is not to be added: its run would be another one.
    fn takes_options(&self) -> bool {
        true
    }

    /// One job, whoever's it is.
    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError>;

    /// A user's jobs, the newest first. A cursor that this queue did not give is [`QueueError::BadCursor`].
    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError>;

    /// Cancels a job that is not being worked on, or asks whoever works on it to stop: its next
    /// [`Self::renew`] says so. When that worker dies first, the next claim of the job says so
    /// ([`Claim::cancel_asked`]): its worker ends the run, and the claim itself cancels nothing.
    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError>;

    /// Parked jobs of everybody, those first that are due first; a job that is not parked any more may be
    /// among them. `cursor` is the [`JobPage::next_cursor`] of the page before, which may have fewer jobs
    /// than `limit`.
    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError>;

    /// Makes a parked job one that anybody may claim in `within` from now, or when its wait expires if that
    /// is sooner. Either way it is claimed before jobs that nobody has begun. False when it is not parked:
    /// nothing is changed then.
    ///
    /// Whoever decides about a wait says so with some seconds before the decision is written, and with none
    /// behind it: whenever they are killed between the two, the job is claimed all the same.
    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError>;

    /// Puts a job that failed for good back to the queue, for one more attempt: a run of its own. Attempts
    /// that were made stay counted.
    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError>;

    /// How many jobs there are.
    async fn depth(&self) -> Result<Depth, QueueError>;

    /// Claims the next job under a lease, waiting up to `patience` for one. Jobs whose lease has expired are
    /// among them. `worker` names this process, `address#incarnation`: where it runs, and something that no
    /// other process has.
    async fn claim(&self, worker: &str, patience: Duration) -> ClaimedJob;

    /// Names this life of the store's server, where one that is restarted may have forgotten the last of what
    /// it acknowledged. `None` where nothing is forgotten.
    async fn incarnation(&self) -> Result<Option<String>, QueueError> {
        Ok(None)
    }

    /// The time by the store's clock, by which leases are counted.
    async fn now(&self) -> Result<SystemTime, QueueError>;

    /// Gives back what other workers at the address of `worker` held and have not renewed for
    /// [`stalled_after`]: its predecessor, which was killed. One that lives renews more often, so that it
    /// keeps its jobs also when it is still ending, or when two machines go by one name. Says how many jobs
    /// there were.
    ///
    /// Claims and renewals since `began` are left alone: the time by [`Self::now`] when the process of
    /// `worker` was started. The store may carry this out when that process has died as well, and its own
    /// successor has claimed jobs.
    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError>;

    /// Makes the lease last [`LEASE`] from now.
    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError>;

    /// Ends an attempt and the lease with it. [`QueueError::LeaseLost`] when somebody else has the job by
    /// now: then nothing is changed.
    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError>;

    /// Ends an attempt as [`Self::settle`] does, and claims the next job for `worker` in the same step if the
    /// store can do that. `None` does not say that there is no job. Like [`Self::claim`] it is not
    /// cancellation-safe.
    async fn settle_and_claim(&self, claim: &Claim, end: &AttemptEnd, _worker: &str) -> ClaimedJob {
        self.settle(claim, end).await.map(|()| None)
    }

    /// Waits a few seconds at most for jobs that end, are parked or are removed, whoever does that, and says
    /// which did after `after`: the cursor of an earlier answer. Without one the answer comes at once, with
    /// the cursor from which to go on. `None` when this queue cannot tell: then those who wait for a job have
    /// to poll.
    async fn changes(&self, _after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        Ok(None)
    }

    /// Closes what is open. Nothing is asked of the queue afterwards.
    async fn close(&self);
}

/// Jobs that have ended, are parked or are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChanges {
    /// Where to go on.
    pub cursor: String,
    pub jobs: ChangedJobs,
}

/// Which jobs have ended, are parked or are gone. A queue may name others as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedJobs {
    /// The jobs of these ids, and no others.
    These(Vec<String>),
    /// Any job may have changed.
    Any,
}

/// A job that a worker holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub job_id: String,
    /// Proves to the queue that the job is held; differs for every claim.
    pub token: String,
    /// Number of this claim: higher than that of any earlier claim of the job, also when attempts are counted
    /// anew.
    pub epoch: Epoch,
    /// What the queue knows of the claims before it.
    pub earlier: EarlierClaims,
    /// Id of its run: the same for every attempt of this job, and of no other job ever, also when the queue
    /// was emptied and counts its ids from 1 again.
    pub run_id: String,
    /// Whether its owner asked to cancel it before this claim: its last worker died before it heard of that.
    /// The run is to be ended and not carried on, however often the job was tried.
    pub cancel_asked: bool,
    /// What is to be done, or why nothing can be: what is wrong with a payload that others put there. It
    /// becomes the job's error.
    pub data: Result<JobData, String>,
    /// Attempts that ended before this one.
    pub attempts_made: u32,
    /// When the job was added.
    pub created_at: SystemTime,
    /// The trace in which it was added, if there was one.
    pub trace: Option<TraceContext>,
    /// From when the lease counts, by this process' clock: not later than the store counts it from.
    pub leased_at: Instant,
    /// What the queue noted of the job when it was claimed, for its own use when the attempt ends.
    pub notes: Arc<BTreeMap<&'static str, String>>,
}

impl Claim {
    /// Whether as many workers died of the run as may: [`MOST_LOSSES`].
    pub fn has_killed_enough(&self) -> bool {
        self.earlier.lost >= MOST_LOSSES * (1 + u32::from(self.cancel_asked))
    }
}

/// What a queue knows of the claims of a job before one. The default is that it knows nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlierClaims {
    /// There certainly was none: nobody can have begun the job's run, so its journal need not be read. A
    /// queue that may have lost what it knew, such as one whose server was replaced by its replica, does not
    /// say so.
    pub are_none: bool,
    /// How many of those for the run of this claim were lost: their workers died, or did not renew them.
    pub lost: u32,
}

impl AttemptEnd {
    /// The worker goes away: anybody may claim the job.
    pub const HANDED_BACK: Self = Self::HandedBack { delay: Duration::ZERO };

    /// Whether the job is left for a later attempt, although nothing went wrong.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Parked { .. } | Self::HandedBack { .. })
    }
}

#[derive(Debug, Clone)]
pub enum AttemptEnd {
    /// With a result: the agent's, as JSON.
    Completed(Box<RawValue>),
    /// Without one.
    Failed {
        /// Why; safe to show to the job's owner.
        error: String,
        /// Whether trying again could help. It is done up to [`ATTEMPTS`] times, or as often as whoever
        /// added the job asked for. A job that is to be cancelled is cancelled instead of tried again; a
        /// failure that is final is one all the same.
        retry: bool,
    },
    /// The work was stopped on its owner's wish.
    Cancelled,
    /// The job's run waits for somebody: no attempt is counted, nothing is held, and nobody claims the job
    /// before it is [resumed](JobQueue::resume).
    Parked {
        /// When the first of its waits expires. From then on anybody may claim the job.
        until: SystemTime,
        /// For what it waits, which [`JobQueue::depth`] counts.
        open: OpenKinds,
    },
    /// The attempt's end was not about the job: no attempt is counted, and the job goes back to the front of
    /// the queue, or with a delay behind those that wait by then.
    HandedBack {
        /// How long nobody may claim it; zero when anybody may at once.
        delay: Duration,
    },
}

/// The result of asking for a job.
pub type ClaimedJob = Result<Option<Claim>, QueueError>;

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
    LeaseLost { job_id: String },
    /// A cursor that this queue did not give.
    #[error("this is no cursor of a list of jobs")]
    BadCursor,
}

/// Where journal and queue are read together, a queue that fails leaves the answer unknown.
impl From<QueueError> for JournalError {
    fn from(error: QueueError) -> Self {
        Self::Store { detail: error.to_string() }
    }
}
