//! The callers' side of a queue, in memory. Nothing works on its jobs.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use agent_core::ports::{AttemptEnd, Claim, JobQueue, QueueError, Renewal};
use agent_core::words::{
    CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, Principal, RetryOutcome,
};
use async_trait::async_trait;

#[derive(Default)]
pub(crate) struct Queue {
    jobs: Mutex<Vec<(Job, JobData)>>,
    broken: Mutex<bool>,
    /// Whether it is shared with workers that read the payload of jobs alone.
    pub(crate) has_node_workers: AtomicBool,
}

impl Queue {
    /// The moment at which every job is added.
    pub(crate) const ADDED: SystemTime = SystemTime::UNIX_EPOCH;

    /// Changes a job, as if a worker had.
    pub(crate) fn change(&self, job_id: &str, change: impl FnOnce(&mut Job)) {
        let mut jobs = self.jobs.lock();
        change(&mut jobs.iter_mut().find(|(job, _)| job.id == job_id).unwrap().0);
    }

    /// Owner and query of every job, in the order they came.
    pub(crate) fn submitted(&self) -> Vec<(String, String)> {
        let jobs = self.jobs.lock();
        jobs.iter().map(|(job, data)| (job.user_id.clone(), data.query.clone())).collect()
    }

    /// The ids of all jobs, in the order they came.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.jobs.lock().iter().map(|(job, _)| job.id.clone()).collect()
    }

    /// What a job is to do.
    pub(crate) fn data(&self, job_id: &str) -> JobData {
        let jobs = self.jobs.lock();
        jobs.iter().find(|(job, _)| job.id == job_id).unwrap().1.clone()
    }

    /// The conversation of each job, in the order they came.
    pub(crate) fn conversations(&self) -> Vec<Option<String>> {
        self.jobs.lock().iter().map(|(_, data)| data.conversation_id.clone()).collect()
    }

    /// On whose behalf each job is to run, in the order they came.
    pub(crate) fn submitters(&self) -> Vec<Principal> {
        self.jobs.lock().iter().map(|(_, data)| data.principal()).collect()
    }

    /// From now on the store cannot be reached.
    pub(crate) fn break_down(&self) {
        *self.broken.lock() = true;
    }

    fn check(&self) -> Result<(), QueueError> {
        match *self.broken.lock() {
            true => Err(QueueError::Store { detail: "the store is gone".into() }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl JobQueue for Queue {
    async fn add(&self, data: &JobData) -> Result<String, QueueError> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let id = data.id.clone().unwrap_or_else(|| (jobs.len() + 1).to_string());
        if jobs.iter().any(|(job, _)| job.id == id) {
            return Ok(id);
        }
        let job = Job {
            run_id: format!("run_{id}"),
            id: id.clone(),
            user_id: data.user_id.clone(),
            parent: data.parent.clone(),
            status: JobStatus::Waiting,
            result: None,
            error: None,
            attempts_made: 0,
            created_at: Self::ADDED,
            started_at: None,
            finished_at: None,
        };
        jobs.push((job, data.clone()));
        Ok(id)
    }

    fn takes_options(&self) -> bool {
        !self.has_node_workers.load(Ordering::Relaxed)
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        self.check()?;
        let jobs = self.jobs.lock();
        Ok(jobs.iter().map(|(job, _)| job).find(|job| job.id == job_id).cloned())
    }

    /// The cursor is the id of the last job of the page.
    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        self.check()?;
        let before = match wanted.cursor {
            Some(cursor) => cursor.parse().map_err(|_| QueueError::BadCursor)?,
            None => u64::MAX,
        };
        let jobs = self.jobs.lock();
        let mut jobs: Vec<_> = jobs
            .iter()
            .rev()
            .map(|(job, _)| job)
            .filter(|job| job.user_id == wanted.user_id && job.id.parse::<u64>().unwrap() < before)
            .filter(|job| wanted.status.is_none_or(|status| job.status == status))
            .cloned()
            .collect();
        let more = jobs.len() > wanted.limit;
        jobs.truncate(wanted.limit);
        let next_cursor = jobs.last().filter(|_| more).map(|job| job.id.clone());
        Ok(JobPage { jobs, next_cursor })
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let Some((job, _)) = jobs.iter_mut().find(|(job, _)| job.id == job_id) else {
            return Ok(CancelOutcome::Unknown);
        };
        match job.status {
            status if status.has_ended() => Ok(CancelOutcome::HadEnded),
            JobStatus::Active => Ok(CancelOutcome::Asked),
            _ => {
                job.status = JobStatus::Cancelled;
                Ok(CancelOutcome::Done)
            }
        }
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let job = jobs.iter_mut().map(|(job, _)| job).find(|job| job.id == job_id);
        Ok(match job {
            None => RetryOutcome::Unknown,
            Some(job) if job.status == JobStatus::Failed => {
                job.status = JobStatus::Waiting;
                RetryOutcome::Done
            }
            Some(_) => RetryOutcome::NotFailed,
        })
    }

    async fn list_parked(&self, limit: usize, _cursor: Option<&str>) -> Result<JobPage, QueueError> {
        self.check()?;
        let jobs = self.jobs.lock();
        let parked =
            jobs.iter().map(|(job, _)| job).filter(|job| job.status == JobStatus::Parked).take(limit);
        Ok(JobPage { jobs: parked.cloned().collect(), next_cursor: None })
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let parked = jobs.iter_mut().map(|(job, _)| job);
        let parked = parked.filter(|job| job.id == job_id && job.status == JobStatus::Parked);
        let Some(job) = parked.last() else { return Ok(false) };
        if within.is_zero() {
            job.status = JobStatus::Waiting;
        }
        Ok(true)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.check()?;
        let jobs = self.jobs.lock();
        let count = |status| jobs.iter().filter(|(job, _)| job.status == status).count() as u64;
        Ok(Depth {
            waiting: count(JobStatus::Waiting),
            active: count(JobStatus::Active),
            delayed: count(JobStatus::Delayed),
            parked: count(JobStatus::Parked),
            ..Depth::default()
        })
    }

    async fn claim(&self, _worker: &str, _patience: Duration) -> Result<Option<Claim>, QueueError> {
        panic!("the edge works on no jobs")
    }

    async fn reclaim(&self, _worker: &str) -> Result<u64, QueueError> {
        panic!("the edge works on no jobs")
    }

    async fn renew(&self, _claim: &Claim) -> Result<Renewal, QueueError> {
        panic!("the edge works on no jobs")
    }

    async fn settle(&self, _claim: &Claim, _end: &AttemptEnd) -> Result<(), QueueError> {
        panic!("the edge works on no jobs")
    }

    async fn close(&self) {}
}
