//! The queue of jobs on Redis, in BullMQ's own protocol: Node producers, Node workers and Bull Board work on
//! the same queue.
//!
//! | key | what |
//! |---|---|
//! | `bull:agent-tasks:…` | BullMQ's, written by its own scripts (`official.rs`) and, where it has no word for it, by ours |
//! | `agent-host:agent-tasks:user:<id>` | a user's jobs, the newest with the highest score |
//! | `agent-host:agent-tasks:wish:<job>` | its owner wants an active job to be cancelled |
//! | `agent-host:agent-tasks:cancelled:<job>` | what was known of a job that is cancelled |
//!
//! Ours expire by themselves. Redis has to be 6.2 or newer, and one server: the keys are not of one cluster slot.

mod ending;
mod listing;
mod official;
mod ours;
mod record;
mod taking;
mod trace_metadata;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::queue::{LEASE, QUEUE};
use agent_core::ports::{
    AttemptEnd, Cancelling, Claim, Depth, Job, JobData, JobPage, JobQueue, QueueError, Renewal, Wanted,
};
use async_trait::async_trait;
use bullmq::QueueKeys;
use redis::{FromRedisValue, ScriptInvocation};
use tokio::sync::Mutex;

use crate::redis::{AddressError, Failure, Redis};
use official::Official;
use ours::Ours;
use taking::Turn;

/// How long an answer may take. A job is worth more patience than a cached result, but whoever adds one
/// waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The queue.
pub struct BullQueue {
    store: Arc<Store>,
    /// One at a time asks for the next job, and on one connection; the others wait for their turn.
    turn: Mutex<Turn>,
}

/// The queue as it lies in Redis.
struct Store {
    redis: Redis,
    /// On this one a command may block until there is a job.
    waiting: Redis,
    keys: QueueKeys,
    official: Official,
    ours: Ours,
}

impl BullQueue {
    /// The queue in the Redis at that address. Nothing is connected yet: while Redis is down, the start-up's
    /// included, every call fails within about two seconds, and when it is back they work again.
    pub fn open(url: &str) -> Result<Self, AddressError> {
        Self::open_with_lease(url, LEASE)
    }

    /// The same with leases of another length, for tests that do not wait as long.
    pub fn open_with_lease(url: &str, lease: Duration) -> Result<Self, AddressError> {
        let keys = QueueKeys::new(QUEUE, None);
        let store = Store {
            redis: Redis::with_patience(url, ANSWER_TIMEOUT)?,
            waiting: Redis::with_patience(url, ANSWER_TIMEOUT)?,
            official: Official::new(keys.clone(), lease),
            ours: Ours::new(keys.clone(), lease),
            keys,
        };
        Ok(Self { store: Arc::new(store), turn: Mutex::default() })
    }
}

#[async_trait]
impl JobQueue for BullQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        let store = &self.store;
        let data = serde_json::to_string(job).map_err(broken)?;
        let now = now();
        let add = &store.official.add(&data, trace_metadata::current(), now).map_err(broken)?;
        let added = store.redis.ask_once(|mut redis| async move { add.invoke_async(&mut redis).await });
        let id: String = added.await.map_err(store_error)?;
        // The job is on the queue, whatever becomes of its place in the list: taking it writes that again.
        if let Err(error) = store.list_for(&job.user_id, &id, now).await {
            tracing::warn!(job_id = id, error = %error, "a job is missing in its owner's list until it is taken");
        }
        Ok(id)
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        Ok(self.store.read_all(&[job_id]).await?.pop().flatten())
    }

    async fn list(&self, wanted: &Wanted<'_>) -> Result<JobPage, QueueError> {
        self.store.list(wanted).await
    }

    async fn cancel(&self, job_id: &str) -> Result<Cancelling, QueueError> {
        self.store.cancel(job_id).await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let (waiting, active, delayed, since) = self.store.run(&self.store.ours.depth()).await?;
        let oldest_waiting = (since > 0)
            .then(|| SystemTime::now().duration_since(record::from_millis(since)).unwrap_or_default());
        Ok(Depth { waiting, active, delayed, oldest_waiting })
    }

    async fn take(&self, worker: &str, patience: Duration) -> Result<Option<Claim>, QueueError> {
        taking::take(&self.store, &self.turn, worker, patience).await
    }

    async fn recover(&self, worker: &str) -> Result<u64, QueueError> {
        self.store.run(&self.store.ours.give_back(Some(worker))).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        self.store.renew(claim).await
    }

    async fn finish(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.store.finish(claim, end).await
    }

    /// A job that was taken for a caller who did not wait for it goes back to the queue.
    async fn close(&self) {
        taking::give_up(&self.store, &self.turn).await;
        self.store.redis.disconnect();
        self.store.waiting.disconnect();
    }
}

impl Store {
    async fn run<T: FromRedisValue + Send>(&self, script: &ScriptInvocation<'_>) -> Result<T, QueueError> {
        let run = |mut redis| async move { script.invoke_async(&mut redis).await };
        self.redis.ask(run).await.map_err(store_error)
    }
}

impl fmt::Debug for BullQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BullQueue").finish_non_exhaustive()
    }
}

fn now() -> u64 {
    record::to_millis(SystemTime::now())
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn store_error(failure: Failure) -> QueueError {
    QueueError::Store { detail: failure.to_string() }
}

/// What could not be written down for Redis.
fn broken(error: impl std::error::Error) -> QueueError {
    QueueError::Store { detail: error.to_string() }
}
