//! Keeps callers from waiting for a Redis that did not answer a moment ago.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long nobody asks again after a failure. Long enough that requests do not queue up behind a Redis
/// that is gone, short enough that nobody notices when it is back.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Lets everybody through while Redis answers. After a failure it lets nobody through for [`PAUSE`], and
/// then one caller, on whose luck it depends whether the others may follow.
///
/// Each link has its own, as each has its own limit for an answer. What a probe finds out is told to all links of
/// one server (`probed`), so that none is closed any more when the service says that it is ready.
#[derive(Debug, Default)]
pub(super) struct Gate {
    closed: Mutex<Option<Closed>>,
    probed: Arc<Probed>,
}

/// When a probe last had an answer, on whichever link of a server.
#[derive(Debug, Default)]
pub(super) struct Probed(Mutex<Option<Instant>>);

#[derive(Debug, Clone, Copy)]
struct Closed {
    since: Instant,
    until: Instant,
}

impl Gate {
    /// Whether to ask now. One who is let through to find out and never reports back is followed by another
    /// one after `patience`.
    pub(super) fn lets_through(&self, now: Instant, patience: Duration) -> bool {
        let mut closed = self.lock();
        match *closed {
            None => true,
            Some(Closed { since, .. }) if self.probed.is_after(since) => {
                *closed = None;
                true
            }
            Some(Closed { until, .. }) if now < until => false,
            Some(Closed { since, .. }) => {
                *closed = Some(Closed { since, until: now + patience });
                true
            }
        }
    }

    /// The gate of another link to the same server.
    pub(super) fn sibling(&self) -> Self {
        Self { closed: Mutex::default(), probed: self.probed.clone() }
    }

    pub(super) fn open(&self) {
        *self.lock() = None;
    }

    pub(super) fn close(&self, now: Instant) {
        *self.lock() = Some(Closed { since: now, until: now + PAUSE });
    }

    /// A probe had an answer: opens the gates of all links to the server.
    pub(super) fn open_all(&self, now: Instant) {
        *self.probed.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probed {
    fn is_after(&self, time: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|probed| probed > time)
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
    fn a_probe_opens_the_links_that_were_closed_before_it() {
        let (gate, now) = (Gate::default(), Instant::now());
        let other = gate.sibling();
        other.close(now);
        gate.open_all(now + PAUSE / 4);
        assert!(other.lets_through(now + PAUSE / 2, PATIENCE));
        other.close(now + PAUSE / 2);
        assert!(!other.lets_through(now + PAUSE / 2, PATIENCE), "it failed after the probe");
    }

    #[test]
    fn one_that_never_reports_back_is_replaced() {
        let (gate, now) = (Gate::default(), Instant::now());
        gate.close(now);
        assert!(gate.lets_through(now + PAUSE, PATIENCE));
        assert!(gate.lets_through(now + PAUSE + PATIENCE, PATIENCE));
    }
}
