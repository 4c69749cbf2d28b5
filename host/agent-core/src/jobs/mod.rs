//! Jobs: what callers do with them, and the worker that works them off.

mod disposition;
mod provider;
mod signals;
mod spans;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use worker::{Worker, WorkerContext};

use self::signals::JobSignals;
use crate::backoff::Backoff;
use crate::ports::{JobQueue, QueueError};
use crate::words::{CancelOutcome, Job, JobData, JobPage, JobQuery};

/// How many jobs a process works on at once (interface, Limits, "Queue worker concurrency").
pub const WORKERS: usize = 5;

/// How often a job that somebody waits for is looked at, in case that another process works on it: soon, then
/// less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_millis(500);

/// What callers do with jobs. Nobody sees or touches a job of somebody else. Clones share what they know of
/// the jobs that this process works on.
#[derive(Clone)]
pub struct Jobs {
    queue: Arc<dyn JobQueue>,
    signals: JobSignals,
    /// Nobody is made to wait any more once this is cancelled.
    stopping: CancellationToken,
}

impl Jobs {
    /// The jobs of that queue.
    pub fn new(queue: Arc<dyn JobQueue>) -> Self {
        Self { queue, signals: JobSignals::default(), stopping: CancellationToken::new() }
    }

    /// The same jobs, and from when `stopping` is cancelled whoever waits for one is told how it stands.
    #[must_use]
    pub fn until(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Adds a job and says its id.
    pub async fn submit(&self, job: &JobData) -> Result<String, QueueError> {
        self.queue.add(job).instrument(spans::send()).await
    }

    /// A job of this user, held back for up to `wait` until it has ended.
    pub async fn read(&self, user_id: &str, job_id: &str, wait: Duration) -> Result<Option<Job>, QueueError> {
        let until = Instant::now() + wait;
        // Watched before it is read, so that nothing happens in between.
        let mut watcher = self.signals.subscribe(job_id);
        let Some(mut job) = self.queue.read(job_id).await?.filter(|job| job.user_id == user_id) else {
            return Ok(None);
        };
        let mut looks = Backoff::new(FIRST_LOOK, LAST_LOOK);
        while !job.status.has_ended() {
            tokio::select! {
                biased;
                () = sleep_until(until) => break,
                () = self.stopping.cancelled() => break,
                () = watcher.changed() => {}
                () = sleep(looks.next()) => {}
            }
            let next = tokio::select! {
                biased;
                () = sleep_until(until) => break,
                next = self.queue.read(job_id) => next,
            };
            // A store that fails now and then may answer the next time; what was read before still holds.
            if let Ok(Some(next)) = next {
                job = next;
            }
        }
        Ok(Some(job))
    }

    /// Some of a user's jobs, the newest first.
    pub async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        self.queue.list(wanted).await
    }

    /// Cancels a job of this user. A run of it in this process is stopped at once; one elsewhere within about
    /// a second. The status says `cancelled` when nothing runs any more.
    pub async fn cancel(&self, user_id: &str, job_id: &str) -> Result<CancelOutcome, QueueError> {
        match self.queue.read(job_id).await? {
            Some(job) if job.user_id == user_id => {}
            Some(_) | None => return Ok(CancelOutcome::Unknown),
        }
        let cancelling = self.queue.cancel(job_id).await?;
        match cancelling {
            CancelOutcome::Asked => self.signals.cancel(job_id),
            CancelOutcome::Done => self.signals.notify(job_id),
            CancelOutcome::HadEnded | CancelOutcome::Refused | CancelOutcome::Unknown => {}
        }
        Ok(cancelling)
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
