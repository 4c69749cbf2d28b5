//! How long a client and a shutdown may take.

use std::time::Duration;

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
