//! Single flight: equal calls that are made at the same time share one execution (request coalescing).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::shared_future::SharedFuture;

/// The executions under way, by key. Each is polled by those that wait for it, the leader that began it and
/// the followers that joined: it goes on as long as one of them waits, and is dropped with the last.
#[derive(Debug)]
pub(super) struct SingleFlight<T: Clone>(Arc<Mutex<Registry<T>>>);

#[derive(Debug)]
struct Registry<T: Clone> {
    flights: HashMap<String, Flight<T>>,
    begun: u64,
}

#[derive(Debug)]
struct Flight<T: Clone> {
    number: u64,
    waiters: usize,
    work: SharedFuture<T>,
}

impl<T: Clone> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry { flights: HashMap::new(), begun: 0 })))
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Joins what is under way for that key, or begins it with `seed`. Gives the seed back when it was
    /// joined.
    pub(super) fn join_or_begin<S>(
        &self,
        key: &str,
        seed: S,
        begin: impl FnOnce(S) -> BoxFuture<'static, T>,
    ) -> (Waiter<T>, Option<S>) {
        let mut registry = self.0.lock();
        let under_way = registry.flights.get_mut(key).filter(|flight| flight.work.peek().is_none());
        let (number, work, seed) = if let Some(flight) = under_way {
            flight.waiters += 1;
            (flight.number, flight.work.clone(), Some(seed))
        } else {
            // An execution that has ended may still be listed, because a waiter has not read it yet. A later
            // caller must not get its answer: it was asked for before that caller came.
            let work = SharedFuture::boxed(begin(seed));
            registry.begun += 1;
            let number = registry.begun;
            registry.flights.insert(key.to_owned(), Flight { number, waiters: 1, work: work.clone() });
            (number, work, None)
        };
        let waiter = Waiter { registry: self.0.clone(), key: key.to_owned(), number, work };
        (waiter, seed)
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.0.lock().flights.len()
    }
}

/// A caller that waits for an execution: its leader or a follower.
pub(super) struct Waiter<T: Clone> {
    registry: Arc<Mutex<Registry<T>>>,
    key: String,
    number: u64,
    work: SharedFuture<T>,
}

impl<T: Clone> Future for Waiter<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.work.poll_unpin(context)
    }
}

impl<T: Clone> Drop for Waiter<T> {
    fn drop(&mut self) {
        let mut registry = self.registry.lock();
        let Some(flight) = registry.flights.get_mut(&self.key) else { return };
        if flight.number != self.number {
            return;
        }
        flight.waiters -= 1;
        if flight.waiters == 0 {
            let flight = registry.flights.remove(&self.key);
            // Outside the lock: dropping the work may take long.
            drop(registry);
            drop(flight);
        }
    }
}
