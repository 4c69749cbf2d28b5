//! Runs that are watched: begun for a reader, followed from any event on by any number of them, on any
//! replica.
//!
//! ```text
//! streams.start(ask, reader)   -> Following     a run of its own, which goes on when its reader leaves
//! streams.follow(found, from)  -> Following     any run that is kept, wherever it is or was carried
//! streams.follow_job(job, from)-> Following     the run of a job, which may not have begun
//! following.next()             -> Followed      events, words of replies, the end
//! ```
//!
//! The journal is the stream: an event is given to readers once it is stored, under its number. Of runs in
//! this process the events come from [`LiveRuns`], of others from the store, which is polled. How a reader
//! learns of the end is in `ending.rs`: from the owner, from the job, or from the record, whose heartbeat
//! also says that the owner lives.
//!
//! A shutdown interrupts readers that can resume on another replica as soon as connections are accepted no
//! longer. All other readers are served until requests under way are cut off.

mod children;
mod ending;
mod job_of_run;
mod permits;
mod recorded_result;
mod resumable_reader;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::recorded_end;
use agent_core::ports::{Journal, JournalError, JournalResult, RunStore, Spawn};
use agent_core::words::{CancelOutcome, Event, Job, JobStatus, Principal, RunOutcome, RunRecord, StopReason};
use tokio::time::sleep;

pub use permits::{MOST_STREAMS, StreamPermit, StreamPermits};
pub use recorded_result::{Interruption, RunEnd, RunFailure};
pub use resumable_reader::{Followed, Following};

use crate::held_lease::LeaseWatch;
use crate::jobs::Jobs;
use crate::layers::{Ask, Invoke, InvokeError, cancel_in_journal, record_end};
use crate::live::LiveRuns;
use crate::runs::{RunHandle, Runs};
use crate::shutdown::Shutdown;
use crate::waits::Waits;
use children::{Family, through_children};
use ending::{Ends, RunOfJob, of_handle, of_job, of_record, of_recorded_job};
use job_of_run::job_of_run;
use resumable_reader::{EndsWithProcess, Source};

/// How long a stream lasts at most that does not end by itself. Clients begin another one, with a token that
/// is good then.
pub const STREAM_LIFE: Duration = Duration::from_hours(1);

/// How often a run is cancelled whose owner appends at the same moment.
const CANCEL_ATTEMPTS: u32 = 8;

/// How long it is waited each time for the first event of a run that has a record.
const CANCEL_PAUSE: Duration = Duration::from_millis(100);

/// Starts, finds and follows runs. Clones are the same.
#[derive(Clone)]
pub struct RunStreams {
    runs: Runs,
    kept: RunStores,
    jobs: Option<Jobs>,
    shutdown: Shutdown,
    keeps_results: bool,
}

/// Where runs are kept.
#[derive(Clone)]
pub struct RunStores {
    /// Journal of the runs' events, which tells `live` of each append.
    pub journal: Arc<dyn Journal>,
    /// Records of the runs; absent where there is no store.
    pub records: Option<Arc<dyn RunStore>>,
    /// Runs of this process, as they go on.
    pub live: LiveRuns,
}

/// A run that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    /// Id of the run, `run_…`.
    pub run_id: String,
    /// Whose it is; nobody's in Variant A.
    pub user_id: Option<String>,
    /// The job it belongs to, as far as that is known.
    pub job_id: Option<String>,
}

/// The reader for whom a run is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstReader {
    /// What becomes of the run when the reader leaves.
    pub on_disconnect: OnDisconnect,
    /// Whether it can resume the stream where the run is kept.
    pub can_resume: bool,
}

/// What becomes of a run whose reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The run goes on.
    Continue,
    /// The run is cancelled.
    Cancel,
}

impl RunStreams {
    /// Runs that are begun here are invocations of `stack`, whose journal is that of `kept`.
    pub fn new(stack: Arc<dyn Invoke>, kept: RunStores, spawn: Arc<dyn Spawn>) -> Self {
        let runs = Runs::new(stack, spawn);
        Self { runs, kept, jobs: None, shutdown: Shutdown::default(), keeps_results: false }
    }

    /// The runs of these jobs are among them.
    #[must_use]
    pub fn with_jobs(self, jobs: Jobs) -> Self {
        Self { jobs: Some(jobs), ..self }
    }

    /// Results are kept: those of runs say that they are none that was kept.
    #[must_use]
    pub fn keeping_results(self, keeps_results: bool) -> Self {
        Self { keeps_results, ..self }
    }

    /// Readers are told of this shutdown.
    #[must_use]
    pub fn until(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// The shutdown that ends streams.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// How many runs that were begun here are under way.
    pub fn under_way(&self) -> usize {
        self.runs.under_way()
    }

    /// Begins a run, and follows it from its beginning. Nothing is begun for a reader that would be
    /// interrupted at once: it reads [`InvokeError::Stopping`].
    pub fn start(&self, mut ask: Ask, reader: FirstReader) -> Following {
        let run_id: Arc<str> = ask.run_id.as_str().into();
        // Before it begins, so that nothing is missed.
        let mut source = self.source(&run_id, Box::pin(pending()));
        if !reader.can_resume {
            source = self.without_resuming(source);
        }
        if source.interrupted.is_cancelled() {
            return Following::refused(source, InvokeError::Stopping);
        }
        ask.control.live = Some(self.kept.live.run(&run_id));
        // Where somebody else has the key of its request, they carry it out.
        let lost = || ask.control.lease.as_ref().map(LeaseWatch::lost).unwrap_or_default();
        let cancel = ask.control.cancel.get_or_insert_with(lost).clone();
        let handle = self.runs.start(ask);
        source.ends_with_process = self.without_store(Some(&handle));
        source.ends = of_handle(handle);
        let mut following = Following::new(source, 0, true);
        if reader.on_disconnect == OnDisconnect::Cancel {
            following.cancel_when_dropped(cancel);
        }
        following
    }

    /// The run of that id, if it is kept.
    pub async fn find(&self, run_id: &str) -> JournalResult<Option<FoundRun>> {
        if let Some(records) = &self.kept.records
            && let Some(record) = records.find(run_id).await?
        {
            let (user_id, job_id) = (record.user_id, record.job_id);
            return Ok(Some(FoundRun { run_id: record.id, user_id, job_id }));
        }
        let first = self.kept.journal.read_page(run_id, 0, 1).await?;
        let Some(Event::Started { task, .. }) = first.into_iter().next() else { return Ok(None) };
        let (run_id, user_id) = (task.id, task.principal.user_id);
        let job_id = match (&self.jobs, &user_id) {
            (Some(jobs), Some(user_id)) => job_of_run(jobs, &*self.kept.journal, user_id, &run_id).await?,
            // Jobs of nobody are nobody's to read.
            _ => None,
        };
        Ok(Some(FoundRun { run_id, user_id, job_id }))
    }

    /// Follows a run from event number `from` on.
    pub fn follow(&self, run: &FoundRun, from: u64) -> Following {
        let run_id: Arc<str> = run.run_id.as_str().into();
        let handle = self.runs.attach(&run_id);
        let ends_with_process = self.without_store(handle.as_ref());
        let ends = match (handle, &self.jobs, &run.job_id, &self.kept.records) {
            (Some(handle), ..) => of_handle(handle),
            (None, Some(jobs), Some(job_id), Some(records)) => {
                let records = of_record(records.clone(), Some(jobs.clone()), run_id.clone());
                let (job_id, user_id) = (job_id.clone(), run.user_id.clone().unwrap_or_default());
                of_recorded_job(jobs.clone(), RunOfJob { run_id: run_id.clone(), job_id, user_id }, records)
            }
            (None, jobs, _, Some(records)) => of_record(records.clone(), jobs.clone(), run_id.clone()),
            // Without a store nobody else carries it.
            (None, _, _, None) => Box::pin(async { ending::Ending::Dead }),
        };
        let mut source = self.source(&run_id, ends);
        source.cached = source.cached.filter(|_| run.job_id.is_none());
        source.ends_with_process = ends_with_process;
        Following::new(source, from, false)
    }

    /// Follows the run of a job from event number `from` on. It may not have begun.
    pub fn follow_job(&self, job: &Job, from: u64) -> Option<Following> {
        Some(Following::new(self.source_of_job(job)?, from, false))
    }

    /// [`Self::follow_job`] for a reader that cannot resume, as clients of OpenAI: during a shutdown it reads
    /// on until requests under way are cut off.
    pub fn follow_job_without_resuming(&self, job: &Job, from: u64) -> Option<Following> {
        Some(Following::new(self.without_resuming(self.source_of_job(job)?), from, false))
    }

    /// A reader like this one, who is told that the run waits only when the runs that it began do not go on
    /// either, or wait for an approval of `by`.
    #[must_use]
    pub fn through_children(&self, following: Following, waits: &Waits, by: &Principal) -> Following {
        let Some(jobs) = self.jobs.clone() else { return following };
        let run_id = following.run_id().into();
        let family = Family { run_id, jobs, waits: waits.clone(), by: by.clone() };
        following.ending_as(|ends| through_children(ends, family))
    }

    /// Whether a reader can have been given that number, of an event or of the end behind the last one.
    pub async fn has_given(&self, run: &FoundRun, number: u64) -> JournalResult<bool> {
        let Some(before) = number.checked_sub(1) else { return Ok(true) };
        self.has_event(run, before).await
    }

    /// Whether that event is kept.
    async fn has_event(&self, run: &FoundRun, number: u64) -> JournalResult<bool> {
        Ok(!self.kept.journal.read_page(&run.run_id, number, 1).await?.is_empty())
    }

    /// Whether a run has ended, and before event number `from`: then nothing is left to follow.
    pub async fn has_ended_before(&self, run: &FoundRun, from: u64) -> JournalResult<bool> {
        let Some(records) = &self.kept.records else { return Ok(false) };
        let has_ended = match records.find(&run.run_id).await? {
            Some(RunRecord { outcome: RunOutcome::Ended { .. }, .. }) => true,
            Some(RunRecord { outcome: RunOutcome::Failed { .. }, job_id, .. }) => {
                self.is_last_attempt(run, job_id).await
            }
            _ => false,
        };
        Ok(has_ended && !self.has_event(run, from).await?)
    }

    /// Whether the run of a job has ended before event number `from`, by what the queue says of the job:
    /// there is no record of a run that never began, nor of one whose workers all died.
    pub async fn job_has_ended_before(&self, job: &Job, run: &FoundRun, from: u64) -> JournalResult<bool> {
        match job.status {
            JobStatus::Failed | JobStatus::Cancelled => Ok(!self.has_event(run, from).await?),
            // The run's last events may still be on their way; its record comes with them.
            JobStatus::Completed => self.has_ended_before(run, from).await,
            JobStatus::Waiting | JobStatus::Active | JobStatus::Delayed | JobStatus::Parked => Ok(false),
        }
    }

    /// Whether no attempt follows one that has failed.
    async fn is_last_attempt(&self, run: &FoundRun, job_id: Option<String>) -> bool {
        let Some(job_id) = job_id else { return true };
        let Some(jobs) = &self.jobs else { return false };
        let owner = run.user_id.as_deref().unwrap_or_default();
        let job = jobs.read(owner, &job_id, Duration::ZERO).await;
        // A job that was tried again has another run.
        matches!(job, Ok(Some(job)) if job.status.has_ended() || job.run_id != run.run_id)
    }

    /// Cancels a run that no job in the queue has, in whichever process it is carried. One of this process
    /// ends at once; another one's ends within some seconds, before its next step at the latest, and its
    /// journal says at once that it was cancelled. Refused where nobody knows who carries it.
    pub async fn cancel(&self, run_id: &str) -> JournalResult<CancelOutcome> {
        if let Some(handle) = self.runs.attach(run_id) {
            handle.cancel();
            return Ok(CancelOutcome::Asked);
        }
        let Some(records) = &self.kept.records else { return Ok(CancelOutcome::HadEnded) };
        let Some(mut record) = records.find(run_id).await? else {
            // The run may be a job's that was not found, and an event would fence the worker of that.
            let has_ended = recorded_end(self.kept.journal.read(run_id, 0).await?, None);
            let has_ended = matches!(has_ended, Ok(Some(_)));
            return Ok(if has_ended { CancelOutcome::HadEnded } else { CancelOutcome::Refused });
        };
        if record.outcome != RunOutcome::Running {
            return Ok(CancelOutcome::HadEnded);
        }
        for _ in 0..CANCEL_ATTEMPTS {
            let events = self.kept.journal.read(run_id, 0).await?;
            // The run's owner is about to begin it, or died before it could: what begins with this is no
            // journal.
            if events.is_empty() {
                sleep(CANCEL_PAUSE).await;
                continue;
            }
            let ended = match cancel_in_journal(&*self.kept.journal, run_id, events).await {
                Err(JournalError::Conflict { .. }) => continue,
                ended => ended?,
            };
            // Whoever has ended it may have died behind that, and leave the rest to whoever cancels it again.
            if ended.is_none_or(|reason| reason == StopReason::Cancelled) {
                self.cancel_job_of(run_id, &**records).await?;
            }
            record_end(&**records, &mut record).await?;
            return Ok(if ended.is_some() { CancelOutcome::HadEnded } else { CancelOutcome::Done });
        }
        Ok(CancelOutcome::Refused)
    }

    /// Cancels the job that a run was handed over to while it was being cancelled, if it was.
    async fn cancel_job_of(&self, run_id: &str, records: &dyn RunStore) -> JournalResult {
        if let (Some(jobs), Some(RunRecord { user_id, job_id: Some(job_id), .. })) =
            (&self.jobs, records.find(run_id).await?)
        {
            jobs.cancel(&user_id.unwrap_or_default(), &job_id).await?;
        }
        Ok(())
    }

    /// What a run is cancelled by that nobody can read once this process has ended, as without a store.
    fn without_store(&self, handle: Option<&RunHandle>) -> Option<EndsWithProcess> {
        self.kept.records.is_none().then(|| EndsWithProcess(handle.cloned()))
    }

    /// What a reader of a job's run is made of.
    fn source_of_job(&self, job: &Job) -> Option<Source> {
        let (job_id, user_id) = (job.id.clone(), job.user_id.clone());
        let run = RunOfJob { run_id: job.run_id.as_str().into(), job_id, user_id };
        let ends = of_job(self.jobs.clone()?, run);
        Some(Source { cached: None, ..self.source(&job.run_id, ends) })
    }

    /// Has a shutdown interrupt a reader that cannot resume as late as other requests.
    fn without_resuming(&self, source: Source) -> Source {
        Source { can_resume: false, interrupted: self.shutdown.requests_end().clone(), ..source }
    }

    /// What a reader is made of. With a store it can resume on another replica, so a shutdown interrupts it
    /// early.
    fn source(&self, run_id: &str, ends: Ends) -> Source {
        let has_store = self.kept.records.is_some();
        let interrupted = if has_store { self.shutdown.drained() } else { self.shutdown.requests_end() };
        Source {
            run_id: run_id.into(),
            journal: self.kept.journal.clone(),
            watcher: self.kept.live.watch(run_id),
            ends,
            can_resume: true,
            ends_with_process: None,
            interrupted: interrupted.clone(),
            cached: self.keeps_results.then_some(false),
        }
    }
}
