//! How many streams one user may have at once.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Enough for a page of runs in several windows, and few enough that one user cannot take all connections.
pub(crate) const MOST_STREAMS: usize = 32;

/// The streams of each user. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamPermits(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// The right to one stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    permits: StreamPermits,
    user: Arc<str>,
}

impl StreamPermits {
    /// One more stream of that user, unless there are too many.
    pub(crate) fn acquire(&self, user: &str) -> Option<StreamPermit> {
        let mut streams = self.0.lock();
        let count = streams.get(user).copied().unwrap_or_default();
        if count >= MOST_STREAMS {
            return None;
        }
        let user: Arc<str> = user.into();
        streams.insert(user.clone(), count + 1);
        Some(StreamPermit { permits: self.clone(), user })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = self.permits.0.lock();
        match streams.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(streams.remove(&self.user)),
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
        assert!(permits.0.lock().is_empty());
    }
}
