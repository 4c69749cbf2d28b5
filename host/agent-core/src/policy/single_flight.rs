//! Work that several callers of one moment wait for together.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

/// What is under way, by key. A flight is driven by those who wait for it: it goes on as long as one of them
/// does, and is dropped with the last.
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
    followers: usize,
    work: Shared<BoxFuture<'static, T>>,
}

impl<T: Clone> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry { flights: HashMap::new(), begun: 0 })))
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Joins what is under way for that key, or begins it. Says whether it was joined.
    pub(super) fn join_or_begin(
        &self,
        key: &str,
        begin: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> (Follower<T>, bool) {
        let mut registry = lock(&self.0);
        let under_way = registry.flights.get_mut(key).filter(|flight| flight.work.peek().is_none());
        let joined = under_way.is_some();
        let (number, work) = if let Some(flight) = under_way {
            flight.followers += 1;
            (flight.number, flight.work.clone())
        } else {
            // One that has landed may still have followers who did not look yet. It is not theirs to give
            // away: what it says was true for those who asked with them.
            let work = begin().shared();
            registry.begun += 1;
            let number = registry.begun;
            registry.flights.insert(key.to_owned(), Flight { number, followers: 1, work: work.clone() });
            (number, work)
        };
        let follower = Follower { registry: self.0.clone(), key: key.to_owned(), number, work };
        (follower, joined)
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        lock(&self.0).flights.len()
    }
}

/// Somebody who waits for a flight.
pub(super) struct Follower<T: Clone> {
    registry: Arc<Mutex<Registry<T>>>,
    key: String,
    number: u64,
    work: Shared<BoxFuture<'static, T>>,
}

impl<T: Clone> Future for Follower<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.work.poll_unpin(context)
    }
}

impl<T: Clone> Drop for Follower<T> {
    fn drop(&mut self) {
        let mut registry = lock(&self.registry);
        let Some(flight) = registry.flights.get_mut(&self.key) else { return };
        if flight.number != self.number {
            return;
        }
        flight.followers -= 1;
        if flight.followers == 0 {
            let flight = registry.flights.remove(&self.key);
            // What is dropped with the work may take a while, and is nobody's business under the lock.
            drop(registry);
            drop(flight);
        }
    }
}

/// Held for a few instructions, never across an await.
fn lock<T: Clone>(registry: &Mutex<Registry<T>>) -> MutexGuard<'_, Registry<T>> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}
