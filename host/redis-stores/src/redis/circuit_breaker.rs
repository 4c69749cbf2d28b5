//! The circuit breaker of one connection to Redis: callers fail at once while a server is down that failed a
//! moment ago.
//!
//! It opens at the first failure and closes at the first success, because nobody has to be kept from a Redis
//! that answers. The circuit of the model's provider (`agent_core::circuit_breaker`) is another one: it
//! counts failures and waits longer, because every try costs money.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How long the circuit stays open after a failure. Long enough that requests do not queue up behind a Redis
/// that is down, short enough that nobody notices when it is back, and shorter than the second after which a
/// lease is renewed again, so that the renewal after a failed one is let through.
pub(super) const RESET_TIMEOUT: Duration = Duration::from_millis(900);

/// Closed while Redis answers. Open for [`RESET_TIMEOUT`] after a failure; then it lets one trial through
/// (half-open), whose outcome decides for the others.
///
/// Each connection has its own, as each has its own timeout. What a probe finds out is told to all
/// connections to one server (`last_probe`), so that no circuit is open any more when the service says that
/// it is ready.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    open: Mutex<Option<Open>>,
    last_probe: Arc<LastProbe>,
}

/// When a probe last had an answer, on whichever connection to a server.
#[derive(Debug, Default)]
pub(super) struct LastProbe(Mutex<Option<Instant>>);

#[derive(Debug, Clone, Copy)]
struct Open {
    since: Instant,
    /// When the next trial may be made.
    until: Instant,
}

impl CircuitBreaker {
    /// Whether a call may be made now. A trial that never reports its outcome is followed by another one
    /// after `timeout`.
    pub(super) fn allows(&self, now: Instant, timeout: Duration) -> bool {
        let mut open = self.open.lock();
        match *open {
            None => true,
            Some(Open { since, .. }) if self.last_probe.is_after(since) => {
                *open = None;
                true
            }
            Some(Open { until, .. }) if now < until => false,
            Some(Open { since, .. }) => {
                *open = Some(Open { since, until: now + timeout });
                true
            }
        }
    }

    /// Whether the circuit is closed, as far as is known without a trial.
    pub(super) fn is_closed(&self) -> bool {
        self.open.lock().is_none_or(|Open { since, .. }| self.last_probe.is_after(since))
    }

    /// The circuit breaker of another connection to the same server.
    pub(super) fn sibling(&self) -> Self {
        Self { open: Mutex::default(), last_probe: self.last_probe.clone() }
    }

    /// A call succeeded: closes the circuit.
    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    /// A call failed: opens the circuit.
    pub(super) fn open(&self, now: Instant) {
        *self.open.lock() = Some(Open { since: now, until: now + RESET_TIMEOUT });
    }

    /// A probe had an answer: closes the circuits of all connections to the server.
    pub(super) fn close_all(&self, now: Instant) {
        *self.last_probe.0.lock() = Some(now);
    }
}

impl LastProbe {
    fn is_after(&self, time: Instant) -> bool {
        self.0.lock().is_some_and(|probed| probed > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(2500);

    #[test]
    fn after_a_failure_one_trial_is_made() {
        let (circuit, now) = (CircuitBreaker::default(), Instant::now());
        assert!(circuit.allows(now, TIMEOUT));
        circuit.open(now);
        assert!(!circuit.allows(now, TIMEOUT));
        let later = now + RESET_TIMEOUT;
        assert!(circuit.allows(later, TIMEOUT));
        assert!(!circuit.allows(later, TIMEOUT));
        circuit.close();
        assert!(circuit.allows(later, TIMEOUT));
    }

    #[test]
    fn a_probe_closes_the_circuits_that_were_opened_before_it() {
        let (circuit, now) = (CircuitBreaker::default(), Instant::now());
        let other = circuit.sibling();
        other.open(now);
        circuit.close_all(now + RESET_TIMEOUT / 4);
        assert!(other.allows(now + RESET_TIMEOUT / 2, TIMEOUT));
        other.open(now + RESET_TIMEOUT / 2);
        assert!(!other.allows(now + RESET_TIMEOUT / 2, TIMEOUT), "it failed after the probe");
    }

    #[test]
    fn a_trial_that_never_reports_its_outcome_is_replaced() {
        let (circuit, now) = (CircuitBreaker::default(), Instant::now());
        circuit.open(now);
        assert!(circuit.allows(now + RESET_TIMEOUT, TIMEOUT));
        assert!(circuit.allows(now + RESET_TIMEOUT + TIMEOUT, TIMEOUT));
    }
}
