//! Jobs: what callers do with them, and the workers that claim them and run them.

mod cancelled;
mod changes;
mod dropped;
mod lease_renewal;
mod letting_go;
mod provider_outage;
mod recovery;
mod report;
mod retry;
mod retry_or_fail;
mod spans;
#[cfg(test)]
mod tests;
mod wakeups;
mod worker;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::backoff::Backoff;
use agent_core::chosen_tools::UnknownTools;
use agent_core::ports::{JobQueue, QueueError, RunStore, Spawn};
use agent_core::trace::InTrace as _;
use agent_core::words::{CancelOutcome, Catalog, Job, JobData, JobPage, JobQuery, JobStatus};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use cancelled::CancelledRuns;
pub use dropped::ERROR_NOT_KEPT;
pub use recovery::recover;
pub(crate) use retry::CLOCKS_APART;
pub use retry::{NotRetried, retry};
pub use retry_or_fail::failure_kind;
pub use worker::{Worker, WorkerContext};

use self::wakeups::{JobSignals, Watcher};
use crate::job_pages::read_page;
use crate::layers::wait_tools;
use crate::live::LiveRuns;

/// How many jobs a process works on at once, unless it is told otherwise
/// (host/docs/interface/errors-and-limits.md#limits).
pub const DEFAULT_WORKERS: usize = 5;

/// How long the queue and the journal may take for their last words when the process ends or a job is
/// cancelled.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How often a job that a caller waits for is polled while the queue does not say which jobs end, in case
/// that another process works on it: soon at first, then less and less often.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);

/// How often it is polled while the queue does say so. Not everything that removes a job says so.
const RARE_POLL: Duration = Duration::from_secs(20);

/// How long a caller who begins to wait for a job that is worked on here is held back before it looks at the
/// job for the first time: most have ended by then, and one look is enough. No longer, so that a store which
/// fails at the end of a long wait does not leave it without an answer.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// What callers do with jobs. A user sees and touches their own jobs only. Clones share the wake-ups of this
/// process.
#[derive(Clone)]
pub struct Jobs {
    queue: Arc<dyn JobQueue>,
    signals: JobSignals,
    /// Callers wait no longer once this is cancelled.
    stopping: CancellationToken,
    /// Absent where no runs are recorded.
    cancelled: Option<Arc<CancelledRuns>>,
    /// Where the runs of jobs are recorded, for jobs that the queue does not keep any more.
    recorded: Option<Arc<dyn RunStore>>,
    /// Where the runs of this process' workers tell of themselves.
    live: LiveRuns,
    /// Tasks that go on when their caller leaves are begun by it; absent where callers stay.
    spawn: Option<Arc<dyn Spawn>>,
    /// Whether the runs of the jobs have the tools to wait with.
    has_wait_tools: bool,
}

impl Jobs {
    /// The jobs of that queue.
    pub fn new(queue: Arc<dyn JobQueue>) -> Self {
        let (signals, stopping) = (JobSignals::default(), CancellationToken::new());
        let live = LiveRuns::default();
        let (cancelled, recorded, spawn, has_wait_tools) = (None, None, None, false);
        Self { queue, signals, stopping, cancelled, recorded, live, spawn, has_wait_tools }
    }

    /// Sets that callers who wait are told how their job stands when `stopping` is cancelled.
    #[must_use]
    pub fn until(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Ends the run of a job that is cancelled while nobody works on it, too.
    #[must_use]
    pub fn ending(self, runs: CancelledRuns) -> Self {
        Self { cancelled: Some(Arc::new(runs)), ..self }
    }

    /// Answers for jobs that the queue has dropped from the records of their runs.
    #[must_use]
    pub fn recorded_in(self, runs: Arc<dyn RunStore>) -> Self {
        Self { recorded: Some(runs), ..self }
    }

    /// Lets the runs of the jobs be watched in `live`.
    #[must_use]
    pub fn watched_in(self, live: LiveRuns) -> Self {
        Self { live, ..self }
    }

    /// Has jobs cancelled in tasks of their own: whoever asked for it may leave, as clients do.
    #[must_use]
    pub fn spawned_by(self, spawn: Arc<dyn Spawn>) -> Self {
        Self { spawn: Some(spawn), ..self }
    }

    /// Sets whether the runs of the jobs have the tools to wait with.
    #[must_use]
    pub fn with_wait_tools(self, has_wait_tools: bool) -> Self {
        Self { has_wait_tools, ..self }
    }

    /// How many jobs are worked on here, or waited for by callers of this process.
    pub fn signals(&self) -> usize {
        self.signals.len()
    }

    /// Adds a job and says its id.
    pub async fn submit(&self, job: &JobData) -> Result<String, QueueError> {
        let span = spans::send();
        self.queue.add(job).in_trace(span.inner()).await
    }

    /// The time by the queue's clock.
    pub(crate) async fn now(&self) -> Result<SystemTime, QueueError> {
        self.queue.now().await
    }

    /// Refuses chosen tools that the run of a job would not have whose submitter's tools are `catalog`.
    pub fn check_tools(&self, catalog: &Catalog, chosen: Option<&[String]>) -> Result<(), UnknownTools> {
        wait_tools::check(catalog, chosen, self.has_wait_tools)
    }

    /// Whether jobs may have [options](JobData::options).
    pub fn take_options(&self) -> bool {
        self.queue.takes_options()
    }

    /// A job of this user, held back for up to `wait` until it has ended or is gone.
    pub async fn read(&self, user_id: &str, job_id: &str, wait: Duration) -> Result<Option<Job>, QueueError> {
        let until = Instant::now() + wait;
        // Watched before it is read, so that nothing happens in between.
        let mut watcher = (!wait.is_zero()).then(|| self.signals.subscribe(job_id));
        if let Some(watcher) = &mut watcher
            && self.signals.is_at_work(job_id, user_id)
        {
            self.wait_here(watcher, until.min(Instant::now() + LOOK_WITHIN)).await;
        }
        let Some(mut job) = self.queue.read(job_id).await?.filter(|job| job.user_id == user_id) else {
            return self.read_dropped(user_id, job_id).await;
        };
        let Some(mut watcher) = watcher else { return Ok(Some(job)) };
        let mut polls = Backoff::new(FIRST_POLL, LAST_POLL);
        let mut is_known = true;
        // Of one that waits for somebody nothing is heard for long.
        while !job.status.has_ended() && job.status != JobStatus::Parked {
            // The job's end wakes those who wait without the queue.
            let is_here = self.signals.is_at_work(job_id, user_id);
            if !is_here {
                watcher.follow();
            }
            let rarely = (is_here || self.signals.is_followed()) && is_known;
            tokio::select! {
                biased;
                () = sleep_until(until) => break,
                () = self.stopping.cancelled() => break,
                () = watcher.changed() => {}
                () = sleep(if rarely { RARE_POLL } else { polls.next() }) => {}
            }
            let next = tokio::select! {
                biased;
                () = sleep_until(until) => break,
                next = self.queue.read(job_id) => next,
            };
            // A store that fails now and then may answer the next time; what was read before still holds.
            is_known = next.is_ok();
            match next {
                Ok(Some(next)) if next.is_of_one_addition_with(&job) => job = next,
                // Somebody removed it. A queue that was emptied may count its ids from the beginning again.
                Ok(_) => return self.read_dropped(user_id, job_id).await,
                Err(_) => {}
            }
        }
        Ok(Some(job))
    }

    /// Waits until the attempt that is under way here has ended, but no longer than until then.
    async fn wait_here(&self, watcher: &mut Watcher, until: Instant) {
        tokio::select! {
            biased;
            () = sleep_until(until) => {}
            () = self.stopping.cancelled() => {}
            () = watcher.changed() => {}
        }
    }

    /// Some of a user's jobs, the newest first: fewer than wanted where their results are large.
    pub async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        read_page(&*self.queue, wanted, |_job| true).await
    }

    /// Cancels a job of this user. A run of it in this process is stopped at once; one elsewhere within about
    /// a second. The status says `cancelled` when nothing runs any more.
    pub async fn cancel(&self, user_id: &str, job_id: &str) -> Result<CancelOutcome, QueueError> {
        self.cancel_run(user_id, job_id, None).await
    }

    /// [`Self::cancel`] as long as the job has that run: one that was tried again has another, and the run
    /// before had ended.
    pub async fn cancel_run(
        &self,
        user_id: &str,
        job_id: &str,
        run_id: Option<&str>,
    ) -> Result<CancelOutcome, QueueError> {
        let Some(job) = self.queue.read(job_id).await?.filter(|job| job.user_id == user_id) else {
            let dropped = self.read_dropped(user_id, job_id).await?;
            return Ok(dropped.map_or(CancelOutcome::Unknown, |_job| CancelOutcome::HadEnded));
        };
        if run_id.is_some_and(|run_id| run_id != job.run_id) {
            return Ok(CancelOutcome::HadEnded);
        }
        let jobs = self.clone();
        let cancelling = Box::pin(async move { jobs.cancel_found(&job).await });
        let Some(spawn) = &self.spawn else { return cancelling.await };
        // Dropped behind the queue's answer, it would leave a run that nobody ends.
        let (tell, told) = oneshot::channel();
        let work = async move {
            let _nobody_waits_any_more = tell.send(cancelling.await);
        };
        spawn.spawn("job-cancel", Box::pin(work.in_current_span().in_current_trace()));
        let broke_off = || QueueError::Store { detail: "the task that cancels the job broke off".to_owned() };
        told.await.unwrap_or_else(|_dropped| Err(broke_off()))
    }

    async fn cancel_found(&self, job: &Job) -> Result<CancelOutcome, QueueError> {
        let cancelling = self.queue.cancel(&job.id).await?;
        match cancelling {
            CancelOutcome::Asked => self.signals.cancel(&job.id),
            CancelOutcome::Done => {
                self.signals.notify(&job.id);
                cancelled::end_run(job, &self.queue, self.cancelled.as_ref()).await?;
            }
            // Whoever asked before may have been killed before its run was ended, and its children.
            CancelOutcome::HadEnded if job.status == JobStatus::Cancelled => {
                cancelled::end_run(job, &self.queue, self.cancelled.as_ref()).await?;
            }
            CancelOutcome::HadEnded | CancelOutcome::Refused | CancelOutcome::Unknown => {}
        }
        Ok(cancelling)
    }

    /// A job of this user that the queue does not have, or that now goes by the id of one: a queue that was
    /// emptied may give its ids again.
    async fn read_dropped(&self, user_id: &str, job_id: &str) -> Result<Option<Job>, QueueError> {
        let Some(runs) = &self.recorded else { return Ok(None) };
        let read = dropped::read(&**runs, user_id, job_id).await;
        read.map_err(|error| QueueError::Store { detail: format!("the record of a job's run: {error}") })
    }
}
