//! The time of day, as the host sees it. `std::time` does not work in a tool: it has no clock but this.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::clock as host;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[must_use]
pub fn now_ms() -> u64 {
    host::now_ms()
}

/// A native test's clock: the machine's.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use std::time::{SystemTime, UNIX_EPOCH};

    pub(super) fn now_ms() -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
}
