//! What goes on beside the requests. The order in which it ends stands in `graceful_shutdown.rs`.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{JobQueue, RunStore, Toolbox as _};
use backends::Writer;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use futures::future::BoxFuture;
use run_service::jobs::{Jobs, Worker, recover};
use run_service::journal::Flusher;
use run_service::retention::Sweeper;
use run_service::shutdown::Shutdown;
use run_service::waits::Waits;
use run_service::webhooks::Dispatcher;
use tokio_util::sync::CancellationToken;
use tool_host::ToolHost;

use super::graceful_shutdown::Running;
use super::migration::Migration;
use super::store_checks::StoreChecks;
use crate::http_recordings::{Drain, Unwritten};
use crate::metrics::QueueDepth;
#[cfg(target_os = "linux")]
use crate::orphans;
use crate::tasks::{Supervisor, Tasks};

/// How long to wait before the queue is asked again for what a predecessor held.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// Everything that is to be started with [`Self::start`]. What has to go on is begun anew when it panics.
pub struct Background {
    pub(super) supervisor: Supervisor,
    pub(super) tools: Arc<ToolHost>,
    /// Makes the model's health checks.
    pub(super) checks: BoxFuture<'static, ()>,
    /// Look at the settings of the stores' servers.
    pub(super) store_checks: StoreChecks,
    pub(super) migration: Option<Migration>,
    /// The owners of requests' runs.
    pub(super) runs: Tasks,
    pub(super) recording: Option<Recording>,
    /// Writes down what tools are answered over HTTP.
    pub(super) http_recordings: Option<Drain>,
    /// Removes what ended long ago.
    pub(super) sweeper: Sweeper,
    pub(super) processing: Option<JobProcessing>,
    pub(super) database: Option<SqlPool>,
    pub(super) mongo: Option<MongoStore>,
}

/// How runs get into their store.
pub(super) struct Recording {
    pub(super) store: Arc<dyn RunStore>,
    pub(super) writer: Writer,
    pub(super) drain: Flusher,
}

/// How jobs are worked off.
pub(super) struct JobProcessing {
    pub(super) queue: Arc<dyn JobQueue>,
    /// Writes for the queue, if it does not do so by itself.
    pub(super) writer: Option<Writer>,
    pub(super) worker: Worker,
    /// How many jobs it works on at once.
    pub(super) workers: usize,
    /// What callers wait for.
    pub(super) jobs: Jobs,
    /// What its runs wait for.
    pub(super) waits: Waits,
    /// The worker's name.
    pub(super) name: String,
    pub(super) depth: QueueDepth,
    /// Sends the ends of jobs to those who want them.
    pub(super) webhooks: Option<Dispatcher>,
}

impl Background {
    /// Waits until the tools are loaded: for a service that nobody asks for its readiness.
    pub async fn prepare(&self) {
        self.tools.reload().await;
    }

    /// Starts everything. The workers begin to hand their jobs back when the shutdown begins. A function
    /// that is frozen between requests must not hold jobs nor locks: it goes `without_workers`.
    pub fn start(self, shutdown: &Shutdown, without_workers: bool) -> Running {
        let mut running = Running {
            shutdown: shutdown.clone(),
            runs: self.runs,
            others: Tasks::new(),
            workers: Tasks::new(),
            drain: Tasks::new(),
            writer: Tasks::new(),
            queue: None,
            database: self.database,
            mongo: self.mongo,
        };
        let starting = Starting { supervisor: self.supervisor, stopping: shutdown.stopping() };
        let watch = over(self.tools.clone(), |tools| async move { tools.watch().await });
        starting.begin(&running.others, "tool-watch", watch);
        #[cfg(target_os = "linux")]
        if orphans::come_here() {
            starting.begin(&running.others, "orphans", orphans::keep_reaping);
        }
        // Not begun anew: it catches the panic of each check by itself and answers it as a failed check. What
        // it would be begun anew with, the probe and the channel to those who wait, is its own.
        running.others.spawn("health-check", self.checks);
        let check = over(self.store_checks, |checks| async move { checks.keep_checking().await });
        starting.begin_dispensable(&running.others, "store-checks", check);
        if let Some(migration) = self.migration {
            starting.migrate(migration, &running.others);
        }
        if let Some(recording) = self.recording {
            starting.record(recording, &running);
        }
        if let Some(drain) = self.http_recordings {
            starting.record_http(drain, &running);
        }
        if !without_workers {
            starting.sweep(self.sweeper, &running.others);
        }
        if let Some(processing) = self.processing {
            running.queue = Some(processing.queue.clone());
            starting.work_off(processing, &self.tools, without_workers, &running);
        }
        running
    }

    /// The recordings of what tools are answered over HTTP that are still to be written; absent where none
    /// are made.
    pub(crate) fn unwritten_http(&self) -> Option<Unwritten> {
        self.http_recordings.as_ref().map(Drain::unwritten)
    }

    /// Begins tasks anew that panicked.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }
}

/// Who looks after the tasks, and when they are to end.
struct Starting<'a> {
    supervisor: Supervisor,
    stopping: &'a CancellationToken,
}

impl Starting<'_> {
    fn begin<F>(&self, tasks: &Tasks, name: &'static str, begin: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tasks.supervise(name, &self.supervisor, self.stopping.clone(), begin);
    }

    /// Begins what the service does well without.
    fn begin_dispensable<F>(
        &self,
        tasks: &Tasks,
        name: &'static str,
        begin: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        tasks.supervise(name, &self.supervisor.of_dispensable_tasks(), self.stopping.clone(), begin);
    }

    /// An attempt that broke off leaves nothing behind: the database takes back what was not committed.
    fn migrate(&self, migration: Migration, tasks: &Tasks) {
        let migrate = over(Arc::new(migration), |migration| async move { migration.keep_trying().await });
        self.begin(tasks, "migration", migrate);
    }

    /// What was given back before a panic is no longer there to be given back, so beginning anew asks for the
    /// rest.
    fn recover(&self, queue: Arc<dyn JobQueue>, worker: String, tasks: &Tasks) {
        self.begin(tasks, "recovery", move || recover(queue.clone(), worker.clone(), RECOVERY_PAUSE));
    }

    fn record(&self, recording: Recording, running: &Running) {
        let writer = recording.writer;
        self.begin(&running.writer, "run-writer", move || writer.run());
        let drain = (Arc::new(recording.drain), running.drain.stopping());
        let record = over(drain, |(drain, until)| async move { drain.run(until).await });
        self.begin(&running.drain, "run-recorder", record);
    }

    fn record_http(&self, drain: Drain, running: &Running) {
        let drain = (Arc::new(drain), running.drain.stopping());
        let record = over(drain, |(drain, until)| async move { drain.run(until).await });
        self.begin_dispensable(&running.drain, "http-recorder", record);
    }

    /// May be dropped anywhere: what it has not removed yet, the next sweep removes.
    fn sweep(&self, sweeper: Sweeper, tasks: &Tasks) {
        let sweep = over(Arc::new(sweeper), |sweeper| async move { sweeper.run().await });
        self.begin_dispensable(tasks, "sweeper", sweep);
    }

    /// What a dispatcher that broke off had claimed is delivered when its lease ends.
    fn dispatch(&self, dispatcher: Dispatcher, tasks: &Tasks) {
        let dispatcher = (Arc::new(dispatcher), self.stopping.clone());
        let dispatch = over(dispatcher, |(dispatcher, until)| async move { dispatcher.run(until).await });
        self.begin_dispensable(tasks, "webhooks", dispatch);
    }

    fn work_off(
        &self,
        processing: JobProcessing,
        tools: &Arc<ToolHost>,
        without_workers: bool,
        running: &Running,
    ) {
        let (depth, queue) = (processing.depth, processing.queue.clone());
        self.begin(&running.others, "queue-depth", move || depth.clone().watch(queue.clone()));
        if let Some(writer) = processing.writer {
            self.begin(&running.writer, "queue-writer", move || writer.run());
        }
        let follow = over(processing.jobs, |jobs| async move { jobs.follow_changes().await });
        self.begin(&running.others, "job-changes", follow);
        if without_workers {
            return;
        }
        let recover_decided = over(processing.waits, |waits| async move { waits.recover_decided().await });
        self.begin(&running.others, "decided-jobs", recover_decided);
        if let Some(dispatcher) = processing.webhooks {
            // Among those whose end is waited for: deliveries under way are finished.
            self.dispatch(dispatcher, &running.workers);
        }
        self.recover(processing.queue, processing.name, &running.others);
        let worker = Arc::new(processing.worker);
        for _ in 0..processing.workers {
            let working = (worker.clone(), tools.clone(), self.stopping.clone());
            let work = over(working, |(worker, tools, until)| async move {
                // A job that is claimed before the tools are loaded would run without them.
                if until.run_until_cancelled(tools.prepared()).await.is_some() {
                    worker.work(until).await;
                }
            });
            self.begin(&running.workers, "worker", work);
        }
    }
}

/// Begins a task over what it works with, each time with a clone of that.
fn over<T: Clone + Send + 'static, F>(
    with: T,
    begin: impl Fn(T) -> F + Send + 'static,
) -> impl FnMut() -> F + Send + 'static {
    move || begin(with.clone())
}

#[cfg(test)]
mod tests;
