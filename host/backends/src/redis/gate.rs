//! Keeps callers from waiting for a Redis that did not answer a moment ago.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long nobody asks again after a failure. Long enough that requests do not queue up behind a Redis
/// that is gone, short enough that nobody notices when it is back.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Lets everybody through while Redis answers. After a failure it lets nobody through for [`PAUSE`], and
/// then one caller, on whose luck it depends whether the others may follow.
#[derive(Debug, Default)]
pub(super) struct Gate {
    closed_until: Mutex<Option<Instant>>,
}

impl Gate {
    /// Whether to ask now. One who is let through to find out and never reports back is followed by another
    /// one after `patience`.
    pub(super) fn lets_through(&self, now: Instant, patience: Duration) -> bool {
        let mut closed_until = self.lock();
        match *closed_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                *closed_until = Some(now + patience);
                true
            }
        }
    }

    pub(super) fn open(&self) {
        *self.lock() = None;
    }

    pub(super) fn close(&self, now: Instant) {
        *self.lock() = Some(now + PAUSE);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closed_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(2500);

    #[test]
    fn after_a_failure_one_goes_first() {
        let (gate, now) = (Gate::default(), Instant::now());
        assert!(gate.lets_through(now, PATIENCE));
        gate.close(now);
        assert!(!gate.lets_through(now, PATIENCE));
        let later = now + PAUSE;
        assert!(gate.lets_through(later, PATIENCE));
        assert!(!gate.lets_through(later, PATIENCE));
        gate.open();
        assert!(gate.lets_through(later, PATIENCE));
    }

    #[test]
    fn one_that_never_reports_back_is_replaced() {
        let (gate, now) = (Gate::default(), Instant::now());
        gate.close(now);
        assert!(gate.lets_through(now + PAUSE, PATIENCE));
        assert!(gate.lets_through(now + PAUSE + PATIENCE, PATIENCE));
    }
}
