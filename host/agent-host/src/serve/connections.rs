//! How many connections there are at once. Each costs a descriptor, and stores and the provider need some of them.
//!
//! When all are taken, a new one displaces the one that has been idle for longest: a client that holds hundreds of
//! idle connections starves nobody. While none is idle, new ones wait in the kernel's queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::metrics::HttpMetrics;

/// The open connections. Clones are the same ones.
#[derive(Clone)]
pub(super) struct Connections(Arc<Registry>);

struct Registry {
    most: usize,
    metrics: Arc<HttpMetrics>,
    /// Held while a connection begins or ends, and while the longest idle one is looked for; not for each request.
    open: Mutex<HashMap<u64, Arc<Slot>>>,
    /// Numbers connections and the moments at which they became idle. Begins at 1.
    ticks: AtomicU64,
    /// Whether a new connection waits for room, and how it is told that there may be some.
    waiting: AtomicBool,
    changed: Notify,
}

/// One connection.
struct Slot {
    /// [`BUSY`], [`DISPLACED`], or the tick at which it became idle.
    state: AtomicU64,
    displaced: CancellationToken,
}

const BUSY: u64 = 0;
const DISPLACED: u64 = u64::MAX;

/// Held by an open connection.
pub(super) struct Open {
    id: u64,
    slot: Arc<Slot>,
    registry: Arc<Registry>,
}

/// Held from a request to the last byte of its answer.
pub(super) struct Busy {
    slot: Arc<Slot>,
    registry: Arc<Registry>,
}

impl Connections {
    pub(super) fn new(most: usize, metrics: Arc<HttpMetrics>) -> Self {
        Self(Arc::new(Registry {
            most,
            metrics,
            open: Mutex::default(),
            ticks: AtomicU64::new(1),
            waiting: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Waits until there is room for one more. Dropping it gives up the wish.
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
        let mut open = self.0.open();
        (open.len() < self.0.most).then(|| self.0.add(&mut open))
    }

    /// Admits one more than there may be: it was accepted already.
    pub(super) fn admit_anyway(&self) -> Open {
        self.0.add(&mut self.0.open())
    }
}

impl Registry {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Slot>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, open: &mut HashMap<u64, Arc<Slot>>) -> Open {
        let id = self.tick();
        let slot = Arc::new(Slot { state: AtomicU64::new(id), displaced: CancellationToken::new() });
        open.insert(id, slot.clone());
        self.metrics.connections_open(open.len());
        Open { id, slot, registry: Arc::clone(self) }
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the connection that has been idle for longest to end, unless one was asked already. Whether one ends.
    fn displace(&self) -> bool {
        let open = self.open();
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

impl Open {
    /// A request has come.
    pub(super) fn begin(&self) -> Busy {
        if self.slot.state.swap(BUSY, Ordering::SeqCst) == DISPLACED {
            // It came just in time: this connection ends with its answer, and another one has to be found.
            self.registry.change();
        }
        Busy { slot: self.slot.clone(), registry: self.registry.clone() }
    }

    /// Whether a request is being answered.
    pub(super) fn is_busy(&self) -> bool {
        self.slot.state.load(Ordering::SeqCst) == BUSY
    }

    /// Resolves when the connection is to end because another one needs its place.
    pub(super) async fn displaced(&self) {
        self.slot.displaced.cancelled().await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Nobody else writes while it is busy.
        self.slot.state.store(self.registry.tick(), Ordering::SeqCst);
        self.registry.change();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.registry.open();
        open.remove(&self.id);
        self.registry.metrics.connections_open(open.len());
        drop(open);
        self.registry.change();
    }
}
