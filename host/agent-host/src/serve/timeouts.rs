//! How long a client and a shutdown may take.

use std::time::Duration;

/// How long closing may take once connections are cut off: long enough for the records of runs that have
/// ended.
pub(super) const LAST_WRITES: Duration = Duration::from_secs(2);

/// How long before they are cut off, at most, answers are asked to end by themselves: runs are cancelled and
/// recorded within this.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long before the process ends, at most, answers are asked to end by themselves.
pub(crate) const LAST_PHASES: Duration = LAST_WORDS.saturating_add(LAST_WRITES);

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// How long connections are still accepted after the signal (`SHUTDOWN_DRAIN_MS`).
    pub drain: Duration,
    /// How long after the signal the process ends, whatever is still under way (`SHUTDOWN_TIMEOUT_MS`).
    pub force: Duration,
    /// How long a new connection may take to send the head of its first request.
    pub first_request: Duration,
    /// How long a connection may take from an answer to the whole head of the next request (`KEEP_ALIVE_MS`).
    pub next_request: Duration,
    /// How long a connection may go without taking a byte of an answer.
    pub unread: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            drain: Duration::ZERO,
            // host/docs/interface/errors-and-limits.md#limits.
            force: Duration::from_secs(30),
            // A head fits into one packet. Clients that dribble it would hold a descriptor each.
            first_request: Duration::from_secs(10),
            // Longer than the 60 s after which the usual load balancers let go of an idle connection: if we
            // let go first, a request that is on its way at that moment is lost.
            next_request: Duration::from_secs(65),
            // Shorter than the forced end, so that a client that reads nothing does not cause one.
            unread: Duration::from_secs(20),
        }
    }
}

impl Timeouts {
    /// How long after the signal connections are cut off.
    pub(super) fn cut_off(&self) -> Duration {
        self.force - self.at_most(LAST_WRITES)
    }

    /// How long after the signal answers are asked to end by themselves.
    pub(crate) fn requests_end(&self) -> Duration {
        self.cut_off() - self.at_most(LAST_WORDS)
    }

    /// A phase of the end takes so long where there is time for it: the drain comes before both, and leaves
    /// each of them a third of what remains.
    fn at_most(&self, phase: Duration) -> Duration {
        phase.min(self.force / 4).min(self.force.saturating_sub(self.drain) / 3)
    }
}
