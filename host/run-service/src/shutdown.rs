//! The phases of a shutdown. The server that owns the listening socket moves from one to the next; readers
//! and runs ask in which one the service is, or wait for one.
//!
//! ```text
//! serving ──begin──> draining ──drained──> finishing ──requests_end──> the forced end
//! ```
//!
//! Each phase is entered once and never left. A service without such a server, such as a function, stays at
//! `serving`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The shutdown of one service. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<Phases>);

#[derive(Debug, Default)]
struct Phases {
    stopping: CancellationToken,
    drained: CancellationToken,
    requests_end: CancellationToken,
    /// When `requests_end` is due. Set before `stopping` is cancelled.
    requests_end_at: OnceLock<Instant>,
}

impl Shutdown {
    /// A signal has come: requests under way may take until then.
    pub fn begin(&self, requests_end_at: Instant) {
        // A second beginning changes nothing.
        let _ = self.0.requests_end_at.set(requests_end_at);
        self.0.stopping.cancel();
    }

    /// Connections are accepted no longer.
    pub fn end_drain(&self) {
        self.0.drained.cancel();
    }

    /// Requests under way are about to be cut off.
    pub fn end_requests(&self) {
        self.0.requests_end.cancel();
    }

    /// Is cancelled when the service is going away.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Is cancelled when connections are accepted no longer. Readers that can resume elsewhere are sent there
    /// now.
    pub fn drained(&self) -> &CancellationToken {
        &self.0.drained
    }

    /// Is cancelled shortly before requests under way are cut off: readers that cannot resume are told so.
    pub fn requests_end(&self) -> &CancellationToken {
        &self.0.requests_end
    }

    /// Whether a run may begin that takes up to `limit`.
    pub fn leaves_time_for(&self, limit: Duration) -> bool {
        let left = self.0.requests_end_at.get().map(|at| at.saturating_duration_since(Instant::now()));
        left.is_none_or(|left| left >= Self::least_left(limit))
    }

    /// The time that has to be left for a run that takes up to `limit`. Most runs need a small part of their
    /// limit, so half of it is enough.
    pub fn least_left(limit: Duration) -> Duration {
        limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn runs_begin_while_half_of_their_limit_is_left() {
        let shutdown = Shutdown::default();
        assert!(shutdown.leaves_time_for(Duration::MAX));
        shutdown.begin(Instant::now() + 10 * SECOND);
        shutdown.begin(Instant::now() + 100 * SECOND);
        assert!(shutdown.leaves_time_for(20 * SECOND) && !shutdown.leaves_time_for(21 * SECOND));
        tokio::time::advance(6 * SECOND).await;
        assert!(shutdown.leaves_time_for(8 * SECOND) && !shutdown.leaves_time_for(9 * SECOND));
        assert!(!shutdown.drained().is_cancelled() && !shutdown.requests_end().is_cancelled());
    }
}
