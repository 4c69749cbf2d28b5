//! What goes on beside the requests, and the order in which it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::jobs::{WORKERS, Worker};
use agent_core::ports::queue::{LEASE, missed};
use agent_core::ports::{JobQueue, RunStore};
use agent_core::record::Drain;
use backends::Writer;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tool_host::ToolHost;

use super::migration::Migration;
use crate::metrics::QueueDepth;
use crate::tasks::{Supervisor, Tasks};

/// How long to wait before the queue is asked again for what a predecessor held.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// Everything that is to be started with [`Self::start`]. What has to go on is begun anew when it panics.
pub struct Background {
    pub(super) supervisor: Supervisor,
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
    pub(super) writer: Writer,
    pub(super) drain: Drain,
}

/// How jobs are worked off.
pub(super) struct Jobbing {
    pub(super) queue: Arc<dyn JobQueue>,
    /// Writes for the queue, if it does not do so by itself.
    pub(super) writer: Option<Writer>,
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
    /// Starts everything. The workers begin to hand their jobs back when `stopping` is cancelled. A function
    /// that is frozen between requests must not hold jobs: it goes `without_workers`.
    pub fn start(self, stopping: &CancellationToken, without_workers: bool) -> Running {
        let (others, workers, drain, writer) = (Tasks::new(), Tasks::new(), Tasks::new(), Tasks::new());
        let (tools, supervisor) = (self.tools, self.supervisor);
        let supervise = |tasks: &Tasks, name, begin: Begin| {
            tasks.supervise(name, &supervisor, stopping.clone(), begin);
        };
        supervise(
            &others,
            "tool-watch",
            begin(move || {
                let tools = tools.clone();
                async move { tools.watch().await }
            }),
        );
        if let Some(migration) = self.migration {
            others.spawn("migration", migration.keep_trying());
        }
        if let Some(recording) = self.recording {
            let run_writer = recording.writer;
            supervise(&writer, "run-writer", begin(move || run_writer.run()));
            let (run_drain, until) = (Arc::new(recording.drain), drain.stopping());
            supervise(
                &drain,
                "run-recorder",
                begin(move || {
                    let (run_drain, until) = (run_drain.clone(), until.clone());
                    async move { run_drain.run(until).await }
                }),
            );
        }
        let mut queue = None;
        if let Some(jobbing) = self.jobbing {
            let (depth, counted) = (jobbing.depth, jobbing.queue.clone());
            supervise(&others, "queue-depth", begin(move || depth.clone().watch(counted.clone())));
            queue = Some(jobbing.queue.clone());
            if let Some(queue_writer) = jobbing.writer {
                supervise(&writer, "queue-writer", begin(move || queue_writer.run()));
            }
            if !without_workers {
                others.spawn("recovery", recover(jobbing.queue, jobbing.name));
                let worker = Arc::new(jobbing.worker);
                for _ in 0..WORKERS {
                    let (worker, until) = (worker.clone(), stopping.clone());
                    supervise(
                        &workers,
                        "worker",
                        begin(move || {
                            let (worker, until) = (worker.clone(), until.clone());
                            async move { worker.work(until).await }
                        }),
                    );
                }
            }
        }
        Running { others, workers, drain, writer, queue, database: self.database, mongo: self.mongo }
    }
}

/// How a task is begun, again and again.
type Begin = Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>;

fn begin<F>(mut begin: impl FnMut() -> F + Send + 'static) -> Begin
where
    F: Future<Output = ()> + Send + 'static,
{
    Box::new(move || Box::pin(begin()))
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
