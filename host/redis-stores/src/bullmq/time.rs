//! Times as BullMQ counts them: whole milliseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

pub(super) fn to_millis(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The time by this machine's clock.
pub(super) fn now() -> u64 {
    to_millis(SystemTime::now())
}
