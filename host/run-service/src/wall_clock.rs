//! The time as a date, which tests may stop: waits expire by it, and journals say by it when they began.

use std::time::SystemTime;

use crate::clock;

/// Tells the time; the system's unless a test says otherwise.
#[derive(Debug, Clone, Copy)]
pub struct WallClock(pub fn() -> SystemTime);

impl Default for WallClock {
    fn default() -> Self {
        Self(clock::now)
    }
}

impl WallClock {
    /// How many milliseconds it is behind 1970.
    pub fn millis(self) -> u64 {
        since_1970((self.0)())
    }
}

/// How many milliseconds a moment is behind 1970.
fn since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
