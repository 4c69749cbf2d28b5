//! What goes on beside the requests, and the order in which it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::jobs::{WORKERS, Worker};
use agent_core::ports::queue::{LEASE, missed};
use agent_core::ports::{JobQueue, RunStore};
use agent_core::record::Drain;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tool_host::ToolHost;

use super::migration::Migration;
use crate::metrics::QueueDepth;
use crate::tasks::Tasks;

/// How long to wait before the queue is asked again for what a predecessor held.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// Everything that is to be started with [`Self::start`].
pub struct Background {
    pub(super) tools: Arc<ToolHost>,
    pub(super) migration: Option<Migration>,
    pub(super) recording: Option<Recording>,
    pub(super) jobbing: Option<Jobbing>,
    pub(super) database: Option<SqlPool>,
    pub(super) mongo: Option<MongoStore>,
}

/// How runs get into their store.
pub(super) struct Recording {
    pub(super) store: Arc<dyn RunStore>,
    pub(super) writer: BoxFuture<'static, ()>,
    pub(super) drain: Drain,
}

/// How jobs are worked off.
pub(super) struct Jobbing {
    pub(super) queue: Arc<dyn JobQueue>,
    /// Writes for the queue, if it does not do so by itself.
    pub(super) writer: Option<BoxFuture<'static, ()>>,
    pub(super) worker: Worker,
    /// The worker's name.
    pub(super) name: String,
    pub(super) depth: QueueDepth,
}

/// What was started, to be ended in its order.
pub struct Running {
    /// What can be dropped wherever it stands.
    others: Tasks,
    workers: Tasks,
    drain: Tasks,
    writer: Tasks,
    queue: Option<Arc<dyn JobQueue>>,
    database: Option<SqlPool>,
    mongo: Option<MongoStore>,
}

impl Background {
    /// Waits until the tools are loaded: for a service that nobody asks for its readiness.
    pub async fn prepare(&self) {
        self.tools.reload().await;
    }

    /// Starts everything. The workers begin to hand their jobs back when `stopping` is cancelled. A function
    /// that is frozen between requests must not hold jobs: it goes `without_workers`.
    pub fn start(self, stopping: &CancellationToken, without_workers: bool) -> Running {
        let (others, workers, drain, writer) = (Tasks::new(), Tasks::new(), Tasks::new(), Tasks::new());
        let (tools, watched) = (self.tools.clone(), self.tools);
        others.spawn("tool-watch", async move { watched.watch().await });
        if let Some(migration) = self.migration {
            others.spawn("migration", migration.keep_trying());
        }
        if let Some(recording) = self.recording {
            writer.spawn("run-writer", recording.writer);
            drain.spawn("run-recorder", recording.drain.run(drain.stopping()));
        }
        let mut queue = None;
        if let Some(jobbing) = self.jobbing {
            others.spawn("queue-depth", jobbing.depth.watch(jobbing.queue.clone()));
            queue = Some(jobbing.queue.clone());
            if let Some(queue_writer) = jobbing.writer {
                writer.spawn("queue-writer", queue_writer);
            }
            if !without_workers {
                others.spawn("recovery", recover(jobbing.queue, jobbing.name));
                let worker = Arc::new(jobbing.worker);
                for _ in 0..WORKERS {
                    let (worker, stopping, tools) = (worker.clone(), stopping.clone(), tools.clone());
                    workers.spawn("worker", async move {
                        // A job that is claimed before the tools are loaded would run without them.
                        if stopping.run_until_cancelled(tools.prepared()).await.is_some() {
                            worker.work(stopping).await;
                        }
                    });
                }
            }
        }
        Running { others, workers, drain, writer, queue, database: self.database, mongo: self.mongo }
    }
}

impl Running {
    /// Ends everything: nobody asks any more when this is called.
    pub async fn close(self) {
        // They were told to stop when the service was; now their jobs are handed back.
        self.workers.finished().await;
        self.others.abort();
        self.others.finished().await;
        if let Some(queue) = self.queue {
            queue.close().await;
        }
        // What the last requests and jobs left behind is written before the stores close.
        self.drain.stop();
        self.drain.finished().await;
        self.writer.abort();
        self.writer.finished().await;
        if let Some(mongo) = self.mongo {
            mongo.close().await;
        }
        if let Some(database) = self.database {
            database.close().await;
        }
    }
}

/// Gives back what a predecessor held when it was killed: as soon as it is clear that nobody renews its leases,
/// and as soon as the queue can be asked.
async fn recover(queue: Arc<dyn JobQueue>, worker: String) {
    let until = Instant::now() + missed(LEASE) + RECOVERY_PAUSE;
    loop {
        let last = Instant::now() >= until;
        match queue.recover(&worker).await {
            Ok(0) if last => return,
            Ok(0) => {}
            Ok(jobs) => {
                tracing::warn!(jobs, "taking up again what was left when this service last ended");
            }
            Err(error) => tracing::debug!(%error, "the queue cannot be asked yet what was left"),
        }
        sleep(RECOVERY_PAUSE).await;
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("others", &self.others)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
