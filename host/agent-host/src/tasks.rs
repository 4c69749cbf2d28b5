//! The one place that spawns, so that a shutdown can wait for everything that runs.
//!
//! What does not belong here: what the tasks do. A panic within one is logged where all panics are, by the
//! hook in `telemetry`, which asks [`current`] for the task's name.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

tokio::task_local! {
    static NAME: Name;
}

/// A type of its own because a bare `&'static str` across an await makes the compiler doubt that the task is
/// `Send`.
#[derive(Clone, Copy)]
struct Name(&'static str);

/// The name of the task that is running on this thread.
pub fn current() -> Option<&'static str> {
    NAME.try_with(|name| name.0).ok()
}

/// A group of tasks that end together. Clones are the same group.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Group>);

#[derive(Default)]
struct Group {
    tracker: TaskTracker,
    stop: CancellationToken,
    /// Held for a few instructions, never across an await.
    running: Mutex<RunningTasks>,
}

/// The tasks that are running, by the order in which they were spawned.
#[derive(Default)]
struct RunningTasks {
    tasks: BTreeMap<u64, Task>,
    next: u64,
    is_aborted: bool,
}

struct Task {
    name: &'static str,
    /// Absent until it is spawned.
    abort: Option<AbortHandle>,
}

/// Polls `event` only when that itself was woken. What waits for an event beside its work, in one task, is
/// else polled whenever the work is; for a cancellation token that is a lock which all of its waiters share.
pub(crate) async fn when_woken<T>(event: impl Future<Output = T>) -> T {
    match FuturesUnordered::from_iter([event]).next().await {
        Some(result) => result,
        None => pending().await,
    }
}

/// How long to wait before a task that panicked is begun anew, at first and at most.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A task that ran this long had recovered: its next panic is a first one.
const RECOVERED: Duration = Duration::from_secs(60);

/// Tasks that are begun anew when they panic, and what is known of those that do not run at the moment.
/// Clones know the same.
#[derive(Clone)]
pub struct Supervisor {
    down: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    restarted: Arc<dyn Fn(&'static str, u64) + Send + Sync>,
}

impl Supervisor {
    /// `restarted` is told of every task that is begun, for metrics: its name and 0 at first, and 1 whenever
    /// it is begun anew.
    pub fn new(restarted: impl Fn(&'static str, u64) + Send + Sync + 'static) -> Self {
        Self { down: Arc::default(), restarted: Arc::new(restarted) }
    }

    /// The tasks that panicked and do not run again yet.
    pub fn down(&self) -> Vec<&'static str> {
        self.down.lock().keys().copied().collect()
    }

    /// One that tells the same of restarts but whose tasks nobody is told to be down: for work that the
    /// service does well without.
    pub fn of_dispensable_tasks(&self) -> Self {
        Self { down: Arc::default(), restarted: Arc::clone(&self.restarted) }
    }

    /// Runs what `begin` gives until that ends by itself. After a panic it is begun anew, later each time;
    /// one that panics once more while the service is `stopping` is let go.
    async fn supervise<F>(
        &self,
        name: &'static str,
        stopping: CancellationToken,
        mut begin: impl FnMut() -> F + Send,
    ) where
        F: Future<Output = ()> + Send,
    {
        let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
        (self.restarted)(name, 0);
        loop {
            let (begun, was_stopping) = (Instant::now(), stopping.is_cancelled());
            // What it shares with others is behind locks that a panic cannot leave half-way: none is held
            // across an await. What it alone had is gone with it.
            let run = AssertUnwindSafe(async { begin().await }).catch_unwind();
            if run.await.is_ok() || was_stopping {
                return;
            }
            if begun.elapsed() >= RECOVERED {
                backoff.reset();
            }
            let delay = backoff.next();
            let _down = Down::begin(name, self.clone());
            tracing::error!(task = name, pause_ms = delay.as_millis(), "a task panicked and is begun anew");
            // What it has to finish before the end is done at once.
            let _ = stopping.run_until_cancelled(sleep(delay)).await;
            (self.restarted)(name, 1);
        }
    }
}

/// A task does not run as long as this is held.
struct Down {
    name: &'static str,
    supervisor: Supervisor,
}

impl Down {
    fn begin(name: &'static str, supervisor: Supervisor) -> Self {
        *supervisor.down.lock().entry(name).or_default() += 1;
        Self { name, supervisor }
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        forget_one(&mut self.supervisor.down.lock(), self.name);
    }
}

/// Takes one from the count under that name.
fn forget_one(counts: &mut BTreeMap<&'static str, usize>, name: &'static str) {
    let left = counts.get_mut(name).map_or(0, |count| {
        *count -= 1;
        *count
    });
    if left == 0 {
        counts.remove(name);
    }
}

/// Tasks that did not end when they were asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("still running after {} ms: {}", .within.as_millis(), .names.join(", "))]
pub struct Unfinished {
    /// How long they were given.
    pub within: Duration,
    /// Names of the tasks, each once.
    pub names: Vec<&'static str>,
}

/// How often it is looked whether tasks of one name have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Tasks {
    /// Waits until no task of that name is running.
    pub(crate) async fn have_ended(&self, name: &str) {
        while self.0.running.lock().tasks.values().any(|task| task.name == name) {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` beside everything else until it ends, or until the group is aborted.
    ///
    /// Work that would go on for ever has to end when [`Self::stopping`] says so.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&Handle::current(), name, work);
    }

    /// Runs `work` like [`Self::spawn`], on another runtime.
    pub(crate) fn spawn_on(
        &self,
        runtime: &Handle,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let running = Running::begin(name, Arc::clone(&self.0));
        let id = running.id;
        let named = async move {
            // The task counts as running until the work has been dropped, whichever way it ended.
            let _running = running;
            NAME.scope(Name(name), work).await;
        };
        let spawned = self.0.tracker.spawn_on(named, runtime);
        let mut running = self.0.running.lock();
        if running.is_aborted {
            spawned.abort();
        } else if let Some(task) = running.tasks.get_mut(&id) {
            task.abort = Some(spawned.abort_handle());
        }
    }

    /// Spawns work that must go on: when it panics, `begin` is asked for it anew.
    pub fn supervise<F>(
        &self,
        name: &'static str,
        supervisor: &Supervisor,
        stopping: CancellationToken,
        begin: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let supervisor = supervisor.clone();
        self.spawn(name, async move { supervisor.supervise(name, stopping, begin).await });
    }

    /// Is cancelled when the tasks are to end.
    pub fn stopping(&self) -> CancellationToken {
        self.0.stop.clone()
    }

    /// Asks all tasks to end.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until no task is left. Before [`Self::stop`] that may be never.
    pub async fn finished(&self) {
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    /// Drops the work of all tasks, wherever it stands.
    pub fn abort(&self) {
        self.0.stop.cancel();
        let mut running = self.0.running.lock();
        running.is_aborted = true;
        let aborts: Vec<_> = running.tasks.values_mut().filter_map(|task| task.abort.take()).collect();
        // A task that is dropped at once needs the lock.
        drop(running);
        aborts.iter().for_each(AbortHandle::abort);
    }

    /// Asks all tasks to end and waits for them. Those that are still running after `within` are aborted.
    pub async fn shutdown(&self, within: Duration) -> Result<(), Unfinished> {
        self.stop();
        if tokio::time::timeout(within, self.finished()).await.is_ok() {
            return Ok(());
        }
        let names = self.0.running.lock().names().into_keys().collect();
        self.abort();
        Err(Unfinished { within, names })
    }
}

impl agent_core::ports::Spawn for Tasks {
    fn spawn(&self, name: &'static str, work: futures::future::BoxFuture<'static, ()>) {
        Self::spawn(self, name, work);
    }
}

impl RunningTasks {
    /// How many there are of each name.
    fn names(&self) -> BTreeMap<&'static str, usize> {
        let mut names = BTreeMap::new();
        for task in self.tasks.values() {
            *names.entry(task.name).or_default() += 1;
        }
        names
    }
}

/// A task counts as running as long as this is held.
struct Running {
    id: u64,
    group: Arc<Group>,
}

impl Running {
    fn begin(name: &'static str, group: Arc<Group>) -> Self {
        let mut running = group.running.lock();
        let id = running.next;
        running.next += 1;
        running.tasks.insert(id, Task { name, abort: None });
        drop(running);
        Self { id, group }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.running.lock().tasks.remove(&self.id);
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.0.running.lock().names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_shutdown_waits_for_tasks_to_end_in_their_own_way() {
        let tasks = Tasks::new();
        let (sender, receiver) = oneshot::channel();
        let stopping = tasks.stopping();
        tasks.spawn("polite", async move {
            stopping.cancelled().await;
            // A task may need more than one step to end.
            tokio::task::yield_now().await;
            let _ = sender.send("ended");
        });
        assert_eq!(tasks.shutdown(SECOND).await, Ok(()));
        assert_eq!(receiver.await, Ok("ended"));
        assert_eq!(format!("{tasks:?}"), "Tasks({})");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_named_and_dropped() {
        let tasks = Tasks::new();
        let (held, dropped) = oneshot::channel::<()>();
        tasks.spawn("deaf", async move {
            let _held = held;
            pending::<()>().await;
        });
        tasks.spawn("mute", pending());
        tasks.spawn("mute", pending());
        tasks.spawn("quick", async {});
        let error = tasks.shutdown(SECOND).await.unwrap_err();
        assert_eq!(error, Unfinished { within: SECOND, names: vec!["deaf", "mute"] });
        assert_eq!(error.to_string(), "still running after 1000 ms: deaf, mute");
        assert!(dropped.await.is_err(), "the work was not dropped");
        tasks.finished().await;
        assert_eq!(format!("{tasks:?}"), "Tasks({})");
    }

    #[tokio::test]
    async fn a_task_that_panics_has_ended() {
        let tasks = Tasks::new();
        tasks.spawn("clumsy", async { panic!("it fell") });
        assert_eq!(tasks.shutdown(SECOND).await, Ok(()));
        assert_eq!(format!("{tasks:?}"), "Tasks({})");
    }

    /// What panics so many times and then waits for the end.
    fn clumsy(
        times: u32,
        stopping: &CancellationToken,
    ) -> impl FnMut() -> futures::future::BoxFuture<'static, ()> + Send + 'static {
        let (mut left, stopping) = (times, stopping.clone());
        move || {
            let panics = left > 0;
            left = left.saturating_sub(1);
            let stopping = stopping.clone();
            Box::pin(async move {
                tokio::task::yield_now().await;
                assert!(!panics, "it fell");
                stopping.cancelled().await;
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervised_task_that_panics_is_begun_anew_and_is_down_until_then() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let supervisor = {
            let told = told.clone();
            Supervisor::new(move |name, restarts| told.lock().push((name, restarts)))
        };
        let (tasks, stopping) = (Tasks::new(), CancellationToken::new());
        tasks.supervise("clumsy", &supervisor, stopping.clone(), clumsy(2, &stopping));
        sleep(FIRST_DELAY / 2).await;
        assert_eq!(supervisor.down(), ["clumsy"]);
        sleep(FIRST_DELAY).await;
        assert_eq!(supervisor.down(), ["clumsy"], "it fell again");
        sleep(FIRST_DELAY * 2).await;
        assert!(supervisor.down().is_empty());
        assert_eq!(*told.lock(), [("clumsy", 0), ("clumsy", 1), ("clumsy", 1)]);
        stopping.cancel();
        assert_eq!(tasks.shutdown(SECOND).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_does_not_wait_for_a_task_to_be_begun_anew() {
        let (tasks, stopping) = (Tasks::new(), CancellationToken::new());
        let supervisor = Supervisor::new(|_, _| {});
        tasks.supervise("clumsy", &supervisor, stopping.clone(), clumsy(u32::MAX, &stopping));
        sleep(SECOND * 100).await;
        assert_eq!(supervisor.down(), ["clumsy"]);
        let start = Instant::now();
        stopping.cancel();
        tasks.finished().await;
        assert!(start.elapsed() < SECOND && supervisor.down().is_empty());
        // One that waits to be begun anew can be dropped as well.
        let tasks = Tasks::new();
        tasks.supervise("clumsy", &supervisor, CancellationToken::new(), clumsy(u32::MAX, &stopping));
        sleep(SECOND).await;
        tasks.abort();
        tasks.finished().await;
        assert!(supervisor.down().is_empty());
    }

    #[tokio::test]
    async fn a_task_knows_its_name_and_nobody_else_does() {
        let tasks = Tasks::new();
        let (sender, receiver) = oneshot::channel();
        tasks.spawn("named", async move {
            tokio::task::yield_now().await;
            let _ = sender.send(current());
        });
        assert_eq!(receiver.await, Ok(Some("named")));
        assert_eq!(current(), None);
    }
}
