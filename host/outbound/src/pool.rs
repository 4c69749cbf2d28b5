//! Connections that wait to be used again.
//!
//! A connection serves the owner it was opened for, the origin it was opened to, and the same reach: a
//! request that may only go to public addresses never takes one to a private address. That it was checked
//! when it was opened is enough: it is still connected to that address. How many wait is bounded, for each
//! key and in all, and for how long.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::time::Instant;

use crate::connect::{Connection, RequestBody};
use crate::origin::Origin;
use crate::ssrf_guard::Reach;
use crate::task::OwnedTask;

/// Where a request goes, on whose behalf, and how far it may reach: what a connection may be used for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Who shares connections; requests of others never use one.
    pub owner: Arc<str>,
    /// Scheme, host and port.
    pub origin: Origin,
    /// Which addresses the host may have.
    pub reach: Reach,
}

/// How many connections wait, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct PoolBounds {
    /// For one destination.
    pub per_key: usize,
    /// For all of them.
    pub in_all: usize,
    /// How long.
    pub idle: Duration,
}

/// Connections that wait.
#[derive(Debug)]
pub(crate) struct Pool<B> {
    bounds: PoolBounds,
    own: Weak<Self>,
    idle: Mutex<Idle<B>>,
}

#[derive(Debug)]
struct Idle<B> {
    /// The longest waiting first.
    connections: VecDeque<IdleConnection<B>>,
    /// Closes what waited too long. There while anything waits.
    sweeper: Option<OwnedTask>,
}

#[derive(Debug)]
struct IdleConnection<B> {
    to: Destination,
    connection: Connection<B>,
    since: Instant,
}

impl Default for PoolBounds {
    /// Most servers close what idles for a minute, some after few seconds.
    fn default() -> Self {
        Self { per_key: 4, in_all: 64, idle: Duration::from_secs(15) }
    }
}

impl PoolBounds {
    /// No connection is used again.
    pub const NONE: Self = Self { per_key: 0, in_all: 0, idle: Duration::ZERO };
}

impl<B: RequestBody> Pool<B> {
    pub(crate) fn new(bounds: PoolBounds) -> Arc<Self> {
        let idle = Idle { connections: VecDeque::new(), sweeper: None };
        Arc::new_cyclic(|own| Self { bounds, own: own.clone(), idle: Mutex::new(idle) })
    }

    /// Whether anything may wait here.
    pub(crate) fn keeps(&self) -> bool {
        self.bounds.in_all > 0 && self.bounds.per_key > 0
    }

    /// The connection that has waited shortest, if one is still open: of those whose I/O is done by the
    /// runtime that asks, so that no other thread is woken, or of all.
    pub(crate) fn take(&self, to: &Destination) -> Option<Connection<B>> {
        let runtime = Handle::current().id();
        let mut idle = self.idle.lock();
        loop {
            let waiting = &idle.connections;
            let latest = |is_near: fn(&Connection<B>, runtime::Id) -> bool| {
                waiting.iter().rposition(|one| is_near(&one.connection, runtime) && one.to == *to)
            };
            let latest = latest(|one, runtime| one.runtime == runtime).or_else(|| latest(|_, _| true))?;
            let taken = idle.connections.remove(latest)?;
            if taken.connection.sender.is_ready() && taken.since.elapsed() < self.bounds.idle {
                return Some(taken.connection);
            }
        }
    }

    /// Keeps a connection that is ready for another request. The longest waiting one goes if there are too
    /// many.
    pub(crate) fn put(&self, to: Destination, connection: Connection<B>) {
        let PoolBounds { per_key, in_all, idle: longest } = self.bounds;
        let mut idle = self.idle.lock();
        let waiting = &mut idle.connections;
        let of_key = |one: &IdleConnection<B>| one.to == to;
        // Only as many as that are counted.
        if waiting.len() >= per_key && waiting.iter().filter(|one| of_key(one)).count() >= per_key {
            waiting.iter().position(of_key).and_then(|oldest| waiting.remove(oldest));
        } else if waiting.len() >= in_all {
            waiting.pop_front();
        }
        waiting.push_back(IdleConnection { to, connection, since: Instant::now() });
        if idle.sweeper.is_none() {
            let sweeping = sweep(self.own.clone(), longest);
            idle.sweeper = Some(OwnedTask::begin(&Handle::current(), sweeping));
        }
    }

    /// How many connections wait, and how many of these the server has not closed.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let waiting = &self.idle.lock().connections;
        let is_open = |one: &&IdleConnection<B>| !one.connection.sender.is_closed();
        (waiting.len(), waiting.iter().filter(is_open).count())
    }
}

/// Closes in time what waited too long or was closed by the server, until nothing waits.
async fn sweep<B: RequestBody>(pool: Weak<Pool<B>>, longest: Duration) {
    let mut next = Instant::now() + longest;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.lock();
        let is_kept =
            |one: &IdleConnection<B>| one.since.elapsed() < longest && !one.connection.sender.is_closed();
        idle.connections.retain(is_kept);
        let Some(oldest) = idle.connections.front() else {
            // The sweeper's task ends here, so that aborting it does nothing.
            idle.sweeper = None;
            return;
        };
        next = oldest.since + longest;
    }
}
