//! How many connections there are at once. Each costs a descriptor, and stores and the provider need some of
//! them.
//!
//! When all are taken, a new one displaces the one that has been idle for longest: a client that holds
//! hundreds of idle connections starves nobody. While none is idle, new ones wait in the kernel's queue. What
//! idle means is for `answer_progress.rs` to say.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::metrics::HttpMetrics;

/// The open connections. Clones are the same ones.
#[derive(Clone)]
pub(super) struct Connections(Arc<Registry>);

struct Registry {
    most: usize,
    /// What each core has to do.
    cores: Arc<[Load]>,
    metrics: Arc<HttpMetrics>,
    /// Held while a connection begins or ends, and while the longest idle one is looked for; not for each
    /// request.
    open: Mutex<HashMap<u64, Arc<Slot>>>,
    /// Numbers connections and the moments at which they became idle. Begins at 1.
    ticks: AtomicU64,
    /// Whether a new connection waits for room, and how it is told that there may be some.
    waiting: AtomicBool,
    changed: Notify,
}

/// The connections of one core.
#[derive(Default)]
struct Load {
    open: AtomicUsize,
    busy: AtomicUsize,
}

/// One connection.
struct Slot {
    /// The core that serves it, and what all of them have to do.
    core: usize,
    cores: Arc<[Load]>,
    /// [`BUSY`], [`DISPLACED`], or the tick at which it became idle.
    state: AtomicU64,
    /// Cancelled once, when the connection is displaced. A request that comes just in time makes it busy
    /// again.
    displaced: CancellationToken,
    /// Notified when a displaced connection that had become busy is idle again.
    idle_again: Notify,
}

const BUSY: u64 = 0;
const DISPLACED: u64 = u64::MAX;

/// Held by an open connection.
pub(super) struct Open {
    id: u64,
    activity: Activity,
}

/// Whether a connection is busy. Clones are of the same connection.
#[derive(Clone)]
pub(super) struct Activity {
    slot: Arc<Slot>,
    registry: Arc<Registry>,
}

impl Connections {
    /// At most so many, spread over so many cores.
    pub(super) fn new(most: usize, cores: usize, metrics: Arc<HttpMetrics>) -> Self {
        Self(Arc::new(Registry {
            most,
            cores: (0..cores).map(|_| Load::default()).collect(),
            metrics,
            open: Mutex::default(),
            ticks: AtomicU64::new(1),
            waiting: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Waits until there is room for one more, and displaces an idle connection to make some. Dropping the
    /// future stops the wait.
    pub(super) async fn admit(&self) -> Open {
        if let Some(open) = self.try_admit() {
            return open;
        }
        let registry = &self.0;
        loop {
            let mut changed = std::pin::pin!(registry.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            registry.waiting.store(true, Ordering::SeqCst);
            if let Some(open) = self.try_admit() {
                registry.waiting.store(false, Ordering::SeqCst);
                return open;
            }
            if !registry.displace() {
                registry.metrics.connection_waits();
            }
            changed.await;
        }
    }

    fn try_admit(&self) -> Option<Open> {
        let mut open = self.0.open.lock();
        (open.len() < self.0.most).then(|| self.0.add(&mut open))
    }

    /// Admits one more than there may be: it was accepted already.
    pub(super) fn admit_anyway(&self) -> Open {
        self.0.add(&mut self.0.open.lock())
    }
}

impl Registry {
    fn add(self: &Arc<Self>, open: &mut HashMap<u64, Arc<Slot>>) -> Open {
        let id = self.tick();
        let core = self.least_busy();
        self.cores[core].open.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot {
            core,
            cores: self.cores.clone(),
            state: AtomicU64::new(id),
            displaced: CancellationToken::new(),
            idle_again: Notify::new(),
        });
        open.insert(id, slot.clone());
        self.metrics.connections_open(open.len());
        Open { id, activity: Activity { slot, registry: Arc::clone(self) } }
    }

    /// The core with the fewest busy connections, and of such the one with the fewest.
    fn least_busy(&self) -> usize {
        let load = |load: &Load| (load.busy.load(Ordering::Relaxed), load.open.load(Ordering::Relaxed));
        let least = self.cores.iter().enumerate().min_by_key(|(_, core)| load(core));
        least.map_or(0, |(core, _)| core)
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the connection that has been idle for longest to end, unless an idle one was asked already: that
    /// one ends within milliseconds. One that was asked and is busy again ends with its answer, so it makes
    /// no room yet. Returns whether one ends now.
    fn displace(&self) -> bool {
        let open = self.open.lock();
        loop {
            let states = open.values().map(|slot| (slot.state.load(Ordering::SeqCst), slot));
            let mut idle = None;
            for (state, slot) in states {
                match (state, idle) {
                    (DISPLACED, _) => return true,
                    (BUSY, _) => {}
                    (_, Some((least, _))) if state > least => {}
                    (..) => idle = Some((state, slot)),
                }
            }
            let Some((state, slot)) = idle else { return false };
            if slot.state.compare_exchange(state, DISPLACED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                slot.displaced.cancel();
                self.metrics.connection_displaced();
                return true;
            }
        }
    }

    /// There may be room now, or an idle connection.
    fn change(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }
}

impl Slot {
    /// Becomes busy, and gives what it was.
    fn begin(&self) -> u64 {
        let was = self.state.swap(BUSY, Ordering::SeqCst);
        if was != BUSY {
            self.load().busy.fetch_add(1, Ordering::Relaxed);
        }
        was
    }

    /// Is busy no more. Nobody else writes the state while it is.
    fn end(&self, state: u64) {
        if self.state.swap(state, Ordering::SeqCst) == BUSY {
            self.load().busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn load(&self) -> &Load {
        &self.cores[self.core]
    }
}

/// A connection that became a WebSocket is its core's for as long as its socket is there.
impl Drop for Slot {
    fn drop(&mut self) {
        self.load().open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Open {
    /// The core that is to serve it.
    pub(super) fn core(&self) -> usize {
        self.activity.slot.core
    }

    /// For whoever knows what the connection is doing.
    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Resolves when the connection is to end because another one needs its place.
    pub(super) async fn displaced(&self) {
        self.activity.slot.displaced.cancelled().await;
    }

    /// Whether a request is being answered, up to the last byte of the answer.
    pub(super) fn is_busy(&self) -> bool {
        self.activity.slot.state.load(Ordering::SeqCst) == BUSY
    }

    /// Resolves when the displaced connection, which was busy, has become idle. It may be busy once more by
    /// then.
    pub(super) async fn idle_again(&self) {
        self.activity.slot.idle_again.notified().await;
    }
}

impl Activity {
    /// A request has come.
    pub(super) fn becomes_busy(&self) {
        if self.slot.begin() == DISPLACED {
            // The request came just in time: this connection ends with its answer, and another one has to be
            // found.
            self.registry.change();
        }
    }

    /// The last byte of its answer was given to the socket.
    pub(super) fn becomes_idle(&self) {
        if self.slot.displaced.is_cancelled() {
            self.slot.end(DISPLACED);
            self.slot.idle_again.notify_one();
        } else {
            self.slot.end(self.registry.tick());
        }
        self.registry.change();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let registry = &self.activity.registry;
        // Whatever it was at: nobody is to find a core busy with it.
        self.activity.slot.end(DISPLACED);
        let mut open = registry.open.lock();
        open.remove(&self.id);
        registry.metrics.connections_open(open.len());
        drop(open);
        registry.change();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn at_most(most: usize) -> Connections {
        let metrics = HttpMetrics::register(&prometheus::Registry::new()).unwrap();
        Connections::new(most, 2, Arc::new(metrics))
    }

    fn was_displaced(open: &Open) -> bool {
        open.displaced().now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_displaced_connection_that_is_busy_again_keeps_no_other_one_from_being_displaced() {
        let connections = at_most(2);
        let (first, second) = (connections.admit().await, connections.admit().await);
        let mut waiting = Box::pin(connections.admit());
        assert!(waiting.as_mut().now_or_never().is_none() && was_displaced(&first));
        assert!(!was_displaced(&second), "one is enough");
        first.activity().becomes_busy();
        assert!(waiting.as_mut().now_or_never().is_none() && was_displaced(&second));
        drop(second);
        assert!(waiting.now_or_never().is_some(), "there is room");
    }

    #[tokio::test]
    async fn a_displaced_connection_is_told_when_it_is_idle_again() {
        let connections = at_most(1);
        let slow = connections.admit().await;
        let mut waiting = Box::pin(connections.admit());
        assert!(waiting.as_mut().now_or_never().is_none() && was_displaced(&slow));
        slow.activity().becomes_busy();
        assert!(slow.is_busy() && slow.idle_again().now_or_never().is_none());
        slow.activity().becomes_idle();
        assert!(!slow.is_busy() && slow.idle_again().now_or_never().is_some());
        assert!(waiting.as_mut().now_or_never().is_none(), "its end is waited for");
        drop(slow);
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_connection_goes_to_the_core_that_has_least_to_do() {
        let connections = at_most(9);
        let (first, second) = (connections.admit().await, connections.admit().await);
        assert_eq!([first.core(), second.core()], [0, 1], "as many have the fewest");
        second.activity().becomes_busy();
        let third = connections.admit().await;
        let fourth = connections.admit().await;
        assert_eq!([third.core(), fourth.core()], [0, 0], "the other one is busy");
        first.activity().becomes_busy();
        assert_eq!(connections.admit().await.core(), 1, "both are busy with one");
        drop(first);
        second.activity().becomes_idle();
        drop((second, third, fourth));
        assert_eq!(connections.admit().await.core(), 0, "nobody is busy with what has gone");
        let socket = connections.admit().await;
        let (core, _handed_over) = (socket.core(), socket.activity());
        drop(socket);
        assert_eq!([core, connections.admit().await.core()], [0, 1], "a socket that was handed over counts");
    }

    #[tokio::test]
    async fn one_that_was_never_displaced_is_told_nothing_when_it_becomes_idle() {
        let connections = at_most(1);
        let open = connections.admit().await;
        open.activity().becomes_busy();
        open.activity().becomes_idle();
        assert!(open.idle_again().now_or_never().is_none() && !was_displaced(&open));
    }
}
