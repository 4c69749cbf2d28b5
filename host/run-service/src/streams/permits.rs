//! How many streams one user may have at once, and how many there may be of all users.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Enough for a page of runs in several windows, and few enough that one user cannot take all connections.
pub const MOST_STREAMS: usize = 32;

/// The streams of each user. Clones count together.
#[derive(Debug, Clone)]
pub struct StreamPermits {
    open: Arc<Mutex<Open>>,
    most_of_user: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct Open {
    of_users: HashMap<Arc<str>, usize>,
    all: usize,
}

/// The right to one stream, until it is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    permits: StreamPermits,
    user: Arc<str>,
}

impl Default for StreamPermits {
    fn default() -> Self {
        Self::new(MOST_STREAMS, usize::MAX)
    }
}

impl StreamPermits {
    /// For so many streams of one user, and so many of all.
    pub fn new(most_of_user: usize, most: usize) -> Self {
        Self { open: Arc::default(), most_of_user, most }
    }

    /// One more stream of that user, unless there are too many.
    pub fn acquire(&self, user: &str) -> Option<StreamPermit> {
        let mut open = self.open.lock();
        let count = open.of_users.get(user).copied().unwrap_or_default();
        if count >= self.most_of_user || open.all >= self.most {
            return None;
        }
        let user: Arc<str> = user.into();
        open.of_users.insert(user.clone(), count + 1);
        open.all += 1;
        Some(StreamPermit { permits: self.clone(), user })
    }
}

impl StreamPermit {
    /// Whether more than half of all streams there may be are open.
    pub fn are_scarce(&self) -> bool {
        self.permits.open.lock().all > self.permits.most / 2
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.permits.open.lock();
        open.all -= 1;
        match open.of_users.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(open.of_users.remove(&self.user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_so_many_streams_at_once() {
        let permits = StreamPermits::default();
        let mut held: Vec<_> = (0..MOST_STREAMS).map(|_| permits.acquire("u1").unwrap()).collect();
        assert!(permits.acquire("u1").is_none());
        let other = permits.acquire("u2").unwrap();
        held.pop();
        held.push(permits.acquire("u1").unwrap());
        assert!(permits.acquire("u1").is_none());
        drop((held, other));
        let open = permits.open.lock();
        assert!(open.of_users.is_empty() && open.all == 0);
    }

    #[test]
    fn all_users_together_have_so_many() {
        let permits = StreamPermits::new(2, 3);
        let held: Vec<_> = ["u1", "u1", "u2"].map(|user| permits.acquire(user)).into_iter().collect();
        assert!(held.iter().all(Option::is_some) && permits.acquire("u3").is_none());
        assert!(held[0].as_ref().is_some_and(StreamPermit::are_scarce));
        drop(held);
        let one = permits.acquire("u3").unwrap();
        assert!(!one.are_scarce());
    }
}
