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
pub(super) struct Flights<T: Clone>(Arc<Mutex<Board<T>>>);

#[derive(Debug)]
struct Board<T: Clone> {
    flights: HashMap<String, Flight<T>>,
    begun: u64,
}

#[derive(Debug)]
struct Flight<T: Clone> {
    number: u64,
    passengers: usize,
    work: Shared<BoxFuture<'static, T>>,
}

impl<T: Clone> Default for Flights<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Board { flights: HashMap::new(), begun: 0 })))
    }
}

impl<T: Clone> Flights<T> {
    /// Joins what is under way for that key, or begins it. Says whether it was joined.
    pub(super) fn join_or_begin(
        &self,
        key: &str,
        begin: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> (Passenger<T>, bool) {
        let mut board = lock(&self.0);
        let under_way = board.flights.get_mut(key).filter(|flight| flight.work.peek().is_none());
        let joined = under_way.is_some();
        let (number, work) = if let Some(flight) = under_way {
            flight.passengers += 1;
            (flight.number, flight.work.clone())
        } else {
            // One that has landed may still have passengers who did not look yet. It is not theirs to give
            // away: what it says was true for those who asked with them.
            let work = begin().shared();
            board.begun += 1;
            let number = board.begun;
            board.flights.insert(key.to_owned(), Flight { number, passengers: 1, work: work.clone() });
            (number, work)
        };
        let passenger = Passenger { board: self.0.clone(), key: key.to_owned(), number, work };
        (passenger, joined)
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        lock(&self.0).flights.len()
    }
}

/// Somebody who waits for a flight.
pub(super) struct Passenger<T: Clone> {
    board: Arc<Mutex<Board<T>>>,
    key: String,
    number: u64,
    work: Shared<BoxFuture<'static, T>>,
}

impl<T: Clone> Future for Passenger<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.work.poll_unpin(context)
    }
}

impl<T: Clone> Drop for Passenger<T> {
    fn drop(&mut self) {
        let mut board = lock(&self.board);
        let Some(flight) = board.flights.get_mut(&self.key) else { return };
        if flight.number != self.number {
            return;
        }
        flight.passengers -= 1;
        if flight.passengers == 0 {
            let flight = board.flights.remove(&self.key);
            // What is dropped with the work may take a while, and is nobody's business under the lock.
            drop(board);
            drop(flight);
        }
    }
}

/// Held for a few instructions, never across an await.
fn lock<T: Clone>(board: &Mutex<Board<T>>) -> MutexGuard<'_, Board<T>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
