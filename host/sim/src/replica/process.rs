//! One life of a replica: its tasks, which are polled by one future and dropped with it, and what only it
//! has: its name, its clock, its connection to everything else.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use agent_core::ports::Spawn;
use agent_core::testing::clock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use run_service::shutdown::Shutdown;
use tokio::time::{Instant, sleep};

use crate::deployment::Release;

/// A process of a replica.
pub struct Process {
    pub name: String,
    crashed: AtomicBool,
    skew: Skew,
    /// The stores that it does not reach, and until when.
    lost: Mutex<Vec<(&'static str, Instant)>>,
    pub release: &'static Release,
    /// Requests that begin a run or write something, and all others.
    pub work: Counted,
    pub looks: Counted,
    /// What is carried out beside them.
    pub runs: Counted,
    pub shutdown: Shutdown,
    /// Whether it has stopped in good order, and not died.
    pub is_stopped: AtomicBool,
    arrived: Mutex<VecDeque<BoxFuture<'static, ()>>>,
    waker: AtomicWaker,
}

/// By how many milliseconds the wall clock of a machine is wrong, which the processes of one replica share.
pub type Skew = Arc<AtomicI64>;

/// How often it is looked whether tasks have ended.
const LOOK: Duration = Duration::from_millis(50);

/// All stores, to which a process may lose its connection.
pub const ALL_STORES: &str = "";

/// Tasks of one kind that are under way.
#[derive(Default)]
pub struct Counted(Arc<()>);

impl Counted {
    /// Counts a task until it is dropped.
    pub fn task(&self, work: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        let one = self.0.clone();
        async move {
            work.await;
            drop(one);
        }
        .boxed()
    }

    pub fn under_way(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// Waits until then for all of them. Says whether they have ended.
    pub async fn have_ended(&self, until: Instant) -> bool {
        while self.under_way() > 0 && Instant::now() < until {
            sleep(LOOK).await;
        }
        self.under_way() == 0
    }
}

impl Process {
    pub fn new(name: String, skew: &Skew, release: &'static Release) -> Arc<Self> {
        Arc::new(Self {
            name,
            release,
            lost: Mutex::default(),
            crashed: AtomicBool::new(false),
            skew: skew.clone(),
            work: Counted::default(),
            looks: Counted::default(),
            runs: Counted::default(),
            shutdown: Shutdown::default(),
            is_stopped: AtomicBool::new(false),
            arrived: Mutex::default(),
            waker: AtomicWaker::new(),
        })
    }

    /// Polls its tasks until it dies, and drops them.
    pub fn live(self: &Arc<Self>) -> Life {
        Life { process: self.clone(), tasks: FuturesUnordered::new() }
    }

    /// Nothing of it goes on behind the step that is under way.
    pub fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    /// The network forgets the connection to a store, which is made anew when the time is up.
    pub fn lose(&self, store: &'static str, within: Duration) {
        self.lost.lock().push((store, Instant::now() + within));
    }

    pub fn has_lost(&self, store: &'static str) -> bool {
        self.lost.lock().iter().any(|(of, until)| *of == store && *until > Instant::now())
    }

    pub fn connect(&self) {
        self.lost.lock().clear();
    }

    /// Says by how much the clock is wrong then.
    pub fn jump(&self, milliseconds: i64) -> Duration {
        let skew = self.skew.fetch_add(milliseconds, Ordering::Relaxed) + milliseconds;
        clock::set_skew(skew);
        Duration::from_millis(skew.unsigned_abs())
    }

    pub fn begin(&self, task: BoxFuture<'static, ()>) {
        // What is begun while it dies never runs.
        if !self.has_crashed() {
            self.arrived.lock().push_back(task);
            self.waker.wake();
        }
    }
}

impl Spawn for Process {
    fn spawn(&self, _name: &'static str, work: BoxFuture<'static, ()>) {
        self.begin(self.runs.task(work));
    }
}

/// All tasks of a process as one future, which ends with it.
pub struct Life {
    process: Arc<Process>,
    tasks: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Future for Life {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let process = self.process.clone();
        process.waker.register(context.waker());
        clock::set_skew(process.skew.load(Ordering::Relaxed));
        loop {
            let arrived = std::mem::take(&mut *process.arrived.lock());
            let has_arrived = !arrived.is_empty();
            self.tasks.extend(arrived);
            let polled = self.tasks.poll_next_unpin(context);
            if process.has_crashed() {
                clock::set_skew(0);
                return Poll::Ready(());
            }
            match polled {
                Poll::Ready(Some(())) => {}
                _ if has_arrived || !process.arrived.lock().is_empty() => {}
                Poll::Ready(None) | Poll::Pending => {
                    clock::set_skew(0);
                    return Poll::Pending;
                }
            }
        }
    }
}
