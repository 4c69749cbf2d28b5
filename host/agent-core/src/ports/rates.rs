//! Windows in which the requests of one caller are counted.

use std::time::Duration;

use boxed_async::boxed_async;

/// Counts requests in fixed windows. A window begins with its key's first hit and ends after its period,
/// whatever comes in between (host/docs/interface/node-clients.md#rate-windows).
#[boxed_async]
pub trait RateWindows: Send + Sync {
    /// Counts one hit in each of the windows, in their order, up to and including the first one that is
    /// thereby exceeded: a request that the first window turns away is not counted in the second. The answer
    /// has one entry per window that was counted in. A store does this in one round trip. A hit that costs
    /// nothing only reads a window, and begins none.
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError>;
}

/// A window to be counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<'a> {
    /// What it counts.
    pub kind: WindowKind,
    /// Whose window it is, such as `ip:192.0.2.1` or `user:u1`.
    pub key: &'a str,
    /// How many hits are allowed: the one after that exceeds it.
    pub limit: u64,
    /// How long the window lasts.
    pub period: Duration,
    /// What the hit counts for: 1, or 0 to read the window only.
    pub cost: u64,
}

/// What a window counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// The requests of an address (host/docs/interface/errors-and-limits.md#limits).
    Address,
    /// The requests of a user (host/docs/interface/errors-and-limits.md#limits).
    User,
}

impl WindowKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Address, Self::User];

    /// The kind as it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "ip",
            Self::User => "user",
        }
    }
}

/// A window after a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// Hits so far, this one and those that were turned away included.
    pub count: u64,
    /// How long until the window ends.
    pub resets_in: Duration,
}

impl Hits {
    /// Whether a window with that limit turns the request away.
    pub fn exceed(self, limit: u64) -> bool {
        self.count > limit
    }
}

/// Why hits could not be counted. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rate windows failed: {0}")]
pub struct RateError(pub String);
