//! A queue of jobs in memory: leases run out by tokio's clock.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::clock;
use super::stores::Switch;
use crate::ports::lease::Lease;
use crate::ports::queue::{ATTEMPTS, LEASE};
use crate::ports::{
    AttemptEnd, ChangedJobs, Claim, EarlierClaims, Epoch, JobChanges, JobQueue, QueueError, Renewal,
};
use crate::trace::{self, TraceContext};
use crate::words::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, RetryOutcome};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// A queue that forgets nothing, without delays between attempts and without cursors.
#[derive(Debug, Default)]
pub struct TestQueue {
    /// Breaks it.
    pub switch: Switch,
    /// Whether the end of one job claims the next.
    pub hands_over: AtomicBool,
    /// Whether it says which jobs end.
    pub tells: AtomicBool,
    /// Whether it fails to say so.
    pub tells_nothing: AtomicBool,
    ended: Mutex<Vec<String>>,
    handed_over: Mutex<u64>,
    jobs: Mutex<BTreeMap<u128, Entry>>,
    changed: Notify,
    taken: Mutex<u64>,
    calls: Mutex<u64>,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    data: Result<JobData, String>,
    lease: Lease,
    cancel_asked: bool,
    claims: u32,
    lost: u32,
    trace: Option<TraceContext>,
    /// Nobody may take it before.
    due: Option<Instant>,
}

impl TestQueue {
    /// Adds a job whose payload cannot be read.
    pub fn add_broken(&self, problem: &str) -> String {
        self.push("nobody", Err(problem.into()))
    }

    /// A job, read without the switch.
    pub fn job(&self, job_id: &str) -> Job {
        let jobs = self.jobs.lock();
        jobs.get(&number(job_id)).map(|entry| entry.job.clone()).unwrap_or_else(|| panic_no_job(job_id))
    }

    /// Removes a job, as an operator does. Another one may get its id.
    pub fn remove(&self, job_id: &str) {
        self.jobs.lock().remove(&number(job_id));
        self.ended.lock().push(job_id.to_owned());
        self.changed.notify_waiters();
    }

    /// Gives the job's lease to somebody else.
    pub fn steal(&self, job_id: &str) {
        if let Some(entry) = self.jobs.lock().get_mut(&number(job_id)) {
            entry.lease = Lease::default();
            entry.lease.claim("a thief", LEASE, Instant::now());
        }
    }

    /// Wakes whoever waits for the queue to change.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// How many jobs were claimed with the end of another one.
    pub fn handed_over(&self) -> u64 {
        *self.handed_over.lock()
    }

    /// How many jobs were claimed.
    pub fn claims(&self) -> u64 {
        *self.taken.lock()
    }

    /// How often the queue was asked anything.
    pub fn calls(&self) -> u64 {
        *self.calls.lock()
    }

    fn push(&self, user_id: &str, data: Result<JobData, String>) -> String {
        let mut jobs = self.jobs.lock();
        let wanted = data.as_ref().ok();
        let id = wanted.and_then(|data| data.id.clone());
        let id = id.unwrap_or_else(|| (jobs.len() + 1).to_string());
        if jobs.contains_key(&number(&id)) {
            return id;
        }
        let parked = wanted.and_then(|data| data.goes_on.clone());
        let left = |until: SystemTime| until.duration_since(clock::store_clock()).unwrap_or_default();
        let due = parked.as_ref().map(|parked| Instant::now() + left(parked.until));
        let job = Job {
            id: id.clone(),
            user_id: user_id.into(),
            parent: wanted.and_then(|data| data.parent.clone()),
            status: if parked.is_some() { JobStatus::Parked } else { JobStatus::Waiting },
            run_id: parked.map_or_else(|| run_id(number(&id)), |parked| parked.run_id),
            result: None,
            error: None,
            attempts_made: 0,
            created_at: clock::store_clock(),
            started_at: None,
            finished_at: None,
        };
        jobs.insert(
            number(&id),
            Entry {
                job,
                data,
                lease: Lease::default(),
                cancel_asked: false,
                // The run of a parked job was begun before the job was added.
                claims: u32::from(due.is_some()),
                lost: 0,
                trace: trace::current(),
                due,
            },
        );
        self.changed.notify_waiters();
        id
    }

    async fn check(&self) -> Result<(), QueueError> {
        *self.calls.lock() += 1;
        self.switch.check().await.map_err(|detail| QueueError::Store { detail })
    }

    fn take_now(&self) -> Option<Claim> {
        let mut jobs = self.jobs.lock();
        let now = Instant::now();
        let free = |entry: &&mut Entry| match entry.job.status {
            JobStatus::Waiting => true,
            JobStatus::Delayed | JobStatus::Parked => entry.due.is_none_or(|due| due <= now),
            JobStatus::Active => !entry.lease.is_held(now),
            _ => false,
        };
        let entry = jobs.values_mut().find(free)?;
        let mut taken = self.taken.lock();
        *taken += 1;
        let token = taken.to_string();
        entry.lost += u32::from(entry.job.status == JobStatus::Active);
        entry.claims += 1;
        entry.lease.claim(&token, LEASE, now);
        entry.job.status = JobStatus::Active;
        entry.job.started_at = Some(clock::store_clock());
        Some(Claim {
            job_id: entry.job.id.clone(),
            token,
            epoch: Epoch(*taken),
            earlier: EarlierClaims { are_none: entry.claims == 1, lost: entry.lost },
            run_id: entry.job.run_id.clone(),
            data: entry.data.clone(),
            attempts_made: entry.job.attempts_made,
            created_at: entry.job.created_at,
            trace: entry.trace,
            leased_at: now.into_std(),
            notes: Arc::default(),
        })
    }
}

#[expect(clippy::panic, reason = "a test that asks for a job which is not there is wrong")]
fn panic_no_job(job_id: &str) -> Job {
    panic!("there is no job {job_id}")
}

fn run_id(number: u128) -> String {
    format!("run_job_{number}")
}

/// The key of a job. Ids that its submitter chose are of hexadecimal digits.
fn number(job_id: &str) -> u128 {
    let counted = job_id.parse::<u64>().ok().map(u128::from);
    counted.or_else(|| u128::from_str_radix(job_id, 16).ok()).unwrap_or_default()
}

#[async_trait]
impl JobQueue for TestQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        self.check().await?;
        Ok(self.push(&job.user_id, Ok(job.clone())))
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        self.check().await?;
        Ok(self.jobs.lock().get(&number(job_id)).map(|entry| entry.job.clone()))
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        self.check().await?;
        let jobs = self.jobs.lock();
        let mine = jobs.values().rev().filter(|entry| entry.job.user_id == wanted.user_id);
        Ok(JobPage { jobs: mine.map(|entry| entry.job.clone()).collect(), next_cursor: None })
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        self.check().await?;
        let mut jobs = self.jobs.lock();
        let Some(entry) = jobs.get_mut(&number(job_id)) else { return Ok(CancelOutcome::Unknown) };
        if entry.job.status.has_ended() {
            return Ok(CancelOutcome::HadEnded);
        }
        if entry.job.status == JobStatus::Active {
            entry.cancel_asked = true;
            return Ok(CancelOutcome::Asked);
        }
        entry.job.status = JobStatus::Cancelled;
        Ok(CancelOutcome::Done)
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        self.check().await?;
        let mut jobs = self.jobs.lock();
        let Some(entry) = jobs.get_mut(&number(job_id)) else { return Ok(RetryOutcome::Unknown) };
        if entry.job.status != JobStatus::Failed {
            return Ok(RetryOutcome::NotFailed);
        }
        entry.job.status = JobStatus::Waiting;
        self.changed.notify_waiters();
        Ok(RetryOutcome::Done)
    }

    async fn list_parked(&self, _limit: usize, _cursor: Option<&str>) -> Result<JobPage, QueueError> {
        self.check().await?;
        let jobs = self.jobs.lock();
        let parked = jobs.values().filter(|entry| entry.job.status == JobStatus::Parked);
        Ok(JobPage { jobs: parked.map(|entry| entry.job.clone()).collect(), next_cursor: None })
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        self.check().await?;
        let mut jobs = self.jobs.lock();
        let parked = jobs.get_mut(&number(job_id)).filter(|entry| entry.job.status == JobStatus::Parked);
        let Some(entry) = parked else { return Ok(false) };
        let due = Instant::now() + within;
        entry.due = entry.due.map(|expiry| expiry.min(due));
        if within.is_zero() {
            entry.job.status = JobStatus::Waiting;
        }
        self.changed.notify_waiters();
        Ok(true)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.check().await?;
        let count = |status| self.jobs.lock().values().filter(|entry| entry.job.status == status).count();
        Ok(Depth {
            waiting: count(JobStatus::Waiting) as u64,
            active: count(JobStatus::Active) as u64,
            parked: count(JobStatus::Parked) as u64,
            ..Depth::default()
        })
    }

    async fn claim(&self, _worker: &str, patience: Duration) -> Result<Option<Claim>, QueueError> {
        let until = Instant::now() + patience;
        loop {
            self.check().await?;
            let changed = self.changed.notified();
            if let Some(claim) = self.take_now() {
                return Ok(Some(claim));
            }
            tokio::select! {
                () = changed => {}
                () = sleep(Duration::from_millis(200)) => {}
                () = sleep_until(until) => return Ok(None),
            }
        }
    }

    async fn reclaim(&self, _worker: &str) -> Result<u64, QueueError> {
        self.check().await.map(|()| 0)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        self.check().await?;
        let mut jobs = self.jobs.lock();
        let Some(entry) = jobs.get_mut(&number(&claim.job_id)) else { return Ok(Renewal::Lost) };
        Ok(match entry.lease.renew(&claim.token, LEASE, Instant::now()) {
            Renewal::Held if entry.cancel_asked => Renewal::Cancelled,
            renewal => renewal,
        })
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.check().await?;
        let mut jobs = self.jobs.lock();
        let lost = || QueueError::LeaseLost { job_id: claim.job_id.clone() };
        let entry = jobs.get_mut(&number(&claim.job_id)).ok_or_else(lost)?;
        if !entry.lease.end(&claim.token) {
            return Err(lost());
        }
        let counts = !matches!(end, AttemptEnd::HandedBack { .. } | AttemptEnd::Parked { .. });
        entry.job.attempts_made += u32::from(counts);
        entry.job.status = match end {
            AttemptEnd::Completed(result) => {
                entry.job.result = Some(result.clone());
                JobStatus::Completed
            }
            AttemptEnd::Failed { error, retry } => {
                entry.job.error = Some(error.clone());
                let again = *retry && entry.job.attempts_made < ATTEMPTS;
                if again { JobStatus::Waiting } else { JobStatus::Failed }
            }
            AttemptEnd::Cancelled => JobStatus::Cancelled,
            // A job that nobody wants any more does not go back.
            AttemptEnd::Parked { .. } | AttemptEnd::HandedBack { .. } if entry.cancel_asked => {
                JobStatus::Cancelled
            }
            AttemptEnd::Parked { until } => {
                let left = until.duration_since(clock::store_clock()).unwrap_or_default();
                entry.due = Some(Instant::now() + left);
                JobStatus::Parked
            }
            AttemptEnd::HandedBack { delay } if delay.is_zero() => JobStatus::Waiting,
            AttemptEnd::HandedBack { delay } => {
                entry.due = Some(Instant::now() + *delay);
                JobStatus::Delayed
            }
        };
        if entry.job.status.has_ended() {
            self.ended.lock().push(claim.job_id.clone());
        }
        self.changed.notify_waiters();
        Ok(())
    }

    async fn settle_and_claim(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        _worker: &str,
    ) -> Result<Option<Claim>, QueueError> {
        self.settle(claim, end).await?;
        let next = if self.hands_over.load(Ordering::Relaxed) { self.take_now() } else { None };
        *self.handed_over.lock() += u64::from(next.is_some());
        Ok(next)
    }

    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        if !self.tells.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.tells_nothing.load(Ordering::Relaxed) {
            return Err(QueueError::Store { detail: "it says nothing".into() });
        }
        let Some(after) = after else {
            self.check().await?;
            let cursor = self.ended.lock().len().to_string();
            return Ok(Some(JobChanges { cursor, jobs: ChangedJobs::Any }));
        };
        loop {
            self.check().await?;
            let changed = self.changed.notified();
            if self.tells_nothing.load(Ordering::Relaxed) {
                return Err(QueueError::Store { detail: "it says nothing".into() });
            }
            let ended = self.ended.lock().clone();
            let new: Vec<_> =
                ended.iter().skip(usize::try_from(number(after)).unwrap_or(usize::MAX)).cloned().collect();
            if !new.is_empty() {
                let jobs = ChangedJobs::These(new);
                return Ok(Some(JobChanges { cursor: ended.len().to_string(), jobs }));
            }
            changed.await;
        }
    }

    async fn close(&self) {}
}
