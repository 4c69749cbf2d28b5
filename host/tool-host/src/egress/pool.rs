//! Connections that wait to be used again.
//!
//! A connection serves the grant it was opened for, the host and port it was opened to, and the same reach: a request
//! that may only go to public addresses never takes one to a private address. That it was checked when it was opened
//! is enough: it is still connected to that address. How many wait is bounded, for each key and in all, and for how
//! long.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::address_check::Reach;
use super::allowed_hosts::Scheme;
use super::connect::Connection;
use super::task::{IoRuntime, OwnedTask};

/// What a connection may be used for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) grant: Arc<str>,
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) reach: Reach,
}

/// How many connections wait, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolBounds {
    pub(crate) per_key: usize,
    pub(crate) in_all: usize,
    pub(crate) idle: Duration,
}

/// Connections that wait.
#[derive(Debug)]
pub(super) struct Pool {
    bounds: PoolBounds,
    runtime: IoRuntime,
    own: Weak<Self>,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The longest waiting first.
    connections: HashMap<PoolKey, Vec<IdleConnection>>,
    count: usize,
    /// Closes what waited too long. There while anything waits.
    sweeper: Option<OwnedTask>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl Default for PoolBounds {
    /// Most servers close what idles for a minute, some after few seconds.
    fn default() -> Self {
        Self { per_key: 4, in_all: 64, idle: Duration::from_secs(15) }
    }
}

impl Pool {
    pub(super) fn new(bounds: PoolBounds, runtime: IoRuntime) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { bounds, runtime, own: own.clone(), idle: Mutex::default() })
    }

    /// The connection that has waited shortest, if one is still open.
    pub(super) fn take(&self, key: &PoolKey) -> Option<Connection> {
        let mut idle = self.idle.lock();
        loop {
            let (taken, left) = {
                let waiting = idle.connections.get_mut(key)?;
                (waiting.pop(), waiting.is_empty())
            };
            if left {
                idle.connections.remove(key);
            }
            let taken = taken?;
            idle.count = idle.count.saturating_sub(1);
            if taken.connection.sender.is_ready() && taken.since.elapsed() < self.bounds.idle {
                return Some(taken.connection);
            }
        }
    }

    /// Keeps a connection that is ready for another request. The longest waiting one goes if there are too many.
    pub(super) fn put(&self, key: PoolKey, connection: Connection) {
        if self.bounds.in_all == 0 || self.bounds.per_key == 0 {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.connections.get(&key).is_some_and(|waiting| waiting.len() >= self.bounds.per_key) {
            idle.close_oldest_of(&key);
        } else if idle.count >= self.bounds.in_all {
            idle.close_oldest();
        }
        idle.connections.entry(key).or_default().push(IdleConnection { connection, since: Instant::now() });
        idle.count += 1;
        if idle.sweeper.is_none() {
            idle.sweeper = Some(self.runtime.spawn(sweep(self.own.clone(), self.bounds.idle)));
        }
    }

    /// How many connections wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.idle.lock().count
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        let idle = self.idle.lock();
        idle.connections.values().flatten().filter(|one| !one.connection.sender.is_closed()).count()
    }
}

impl Idle {
    fn close_oldest(&mut self) {
        let oldest_of = |waiting: &Vec<IdleConnection>| waiting.first().map(|oldest| oldest.since);
        let oldest = self.connections.iter().min_by_key(|(_, waiting)| oldest_of(waiting));
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.close_oldest_of(&key);
        }
    }

    fn close_oldest_of(&mut self, key: &PoolKey) {
        let Some(waiting) = self.connections.get_mut(key) else { return };
        if !waiting.is_empty() {
            drop(waiting.remove(0));
            self.count = self.count.saturating_sub(1);
        }
        if waiting.is_empty() {
            self.connections.remove(key);
        }
    }

    /// Closes what waited too long or was closed by the server, and says when to look again.
    fn close_expired(&mut self, idle: Duration) -> Option<Instant> {
        self.connections.retain(|_, waiting| {
            waiting.retain(|one| one.since.elapsed() < idle && !one.connection.sender.is_closed());
            !waiting.is_empty()
        });
        self.count = self.connections.values().map(Vec::len).sum();
        self.connections.values().flatten().map(|one| one.since + idle).min()
    }
}

/// Closes connections in time, until none waits.
async fn sweep(pool: Weak<Pool>, idle: Duration) {
    let mut next = Instant::now() + idle;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut waiting = pool.idle.lock();
        match waiting.close_expired(idle) {
            Some(at) => next = at,
            None => {
                // This task ends here, so that aborting it does nothing.
                waiting.sweeper = None;
                return;
            }
        }
    }
}
