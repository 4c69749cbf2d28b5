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

/// Leave to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Redis answers.
    Free,
    /// It did not answer the last time: this is the one who finds out.
    Scout,
}

impl Gate {
    /// Whether to ask now. A scout that never reports back is followed by another one after `patience`.
    pub(super) fn enter(&self, now: Instant, patience: Duration) -> Option<Pass> {
        let mut closed_until = self.lock();
        match *closed_until {
            None => Some(Pass::Free),
            Some(until) if now < until => None,
            Some(_) => {
                *closed_until = Some(now + patience);
                Some(Pass::Scout)
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_some()
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
        assert_eq!(gate.enter(now, PATIENCE), Some(Pass::Free));
        gate.close(now);
        assert_eq!(gate.enter(now, PATIENCE), None);
        let later = now + PAUSE;
        assert_eq!(gate.enter(later, PATIENCE), Some(Pass::Scout));
        assert_eq!(gate.enter(later, PATIENCE), None);
        gate.open();
        assert_eq!(gate.enter(later, PATIENCE), Some(Pass::Free));
    }

    #[test]
    fn a_scout_that_is_lost_is_replaced() {
        let (gate, now) = (Gate::default(), Instant::now());
        gate.close(now);
        assert_eq!(gate.enter(now + PAUSE, PATIENCE), Some(Pass::Scout));
        assert_eq!(gate.enter(now + PAUSE + PATIENCE, PATIENCE), Some(Pass::Scout));
    }
}
