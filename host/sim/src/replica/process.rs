//! One life of a replica: its tasks, which are polled by one future and dropped with it, and what only it
//! has: its name, its clock, its connection to everything else.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use agent_core::ports::Spawn;
use agent_core::testing::clock;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::deployment::Release;

/// A process of a replica. Clones are the same one.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

#[doc(hidden)]
pub struct Inner {
    pub name: String,
    crashed: AtomicBool,
    /// The wall clock of its machine, which its successors have as well.
    skew: Arc<AtomicI64>,
    cut_off_until: Mutex<Option<Instant>>,
    /// The stores that its connections do not reach any more, and until when.
    forgotten: Mutex<Vec<(&'static str, Instant)>>,
    pub release: &'static Release,
    requests: AtomicUsize,
    arrived: Mutex<VecDeque<BoxFuture<'static, ()>>>,
    waker: AtomicWaker,
}

impl std::ops::Deref for Process {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The machine that processes of one replica run on.
#[derive(Clone, Default)]
pub struct Machine(Arc<AtomicI64>);

impl Machine {
    /// The process' wall clock is right again.
    pub fn set_clock(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Process {
    pub fn new(name: String, machine: &Machine, release: &'static Release) -> Self {
        Self(Arc::new(Inner {
            name,
            release,
            forgotten: Mutex::default(),
            crashed: AtomicBool::new(false),
            skew: machine.0.clone(),
            cut_off_until: Mutex::default(),
            requests: AtomicUsize::new(0),
            arrived: Mutex::default(),
            waker: AtomicWaker::new(),
        }))
    }

    pub fn request(&self) -> Request {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Request(self.0.clone())
    }

    /// Polls its tasks until it dies, and drops them.
    pub fn live(&self) -> Life {
        Life { process: self.clone(), tasks: FuturesUnordered::new() }
    }
}

impl Inner {
    /// Nothing of it goes on behind the step that is under way.
    pub fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    pub fn cut_off(&self, within: Duration) {
        *self.cut_off_until.lock() = Some(Instant::now() + within);
    }

    pub fn is_cut_off(&self) -> bool {
        self.cut_off_until.lock().is_some_and(|until| until > Instant::now())
    }

    /// The network forgets the connection to a store, which is made anew when the time is up.
    pub fn forget_connection(&self, store: &'static str, within: Duration) {
        self.forgotten.lock().push((store, Instant::now() + within));
    }

    pub fn is_forgotten(&self, store: &'static str) -> bool {
        let mut forgotten = self.forgotten.lock();
        if forgotten.is_empty() {
            return false;
        }
        forgotten.retain(|(_, until)| *until > Instant::now());
        forgotten.iter().any(|(of, _)| *of == store)
    }

    pub fn connect(&self) {
        *self.cut_off_until.lock() = None;
        self.forgotten.lock().clear();
    }

    /// Says by how much the clock is wrong then.
    pub fn jump(&self, milliseconds: i64) -> Duration {
        let skew = self.skew.fetch_add(milliseconds, Ordering::Relaxed) + milliseconds;
        clock::set_skew(skew);
        Duration::from_millis(skew.unsigned_abs())
    }

    pub fn requests_under_way(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn begin(&self, task: BoxFuture<'static, ()>) {
        // What is begun while it dies never runs.
        if !self.has_crashed() {
            self.arrived.lock().push_back(task);
            self.waker.wake();
        }
    }
}

/// A request that a process serves, until this is dropped.
pub struct Request(Arc<Inner>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spawn for Process {
    fn spawn(&self, _name: &'static str, work: BoxFuture<'static, ()>) {
        self.begin(work);
    }
}

/// All tasks of a process as one future, which ends with it.
pub struct Life {
    process: Process,
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
