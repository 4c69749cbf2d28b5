//! The time of day, as the host sees it. `std::time` does not work in a tool: it has no clock but this.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::clock as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[must_use]
pub fn now_ms() -> u64 {
    host::now_ms()
}

/// A native test's clock: the machine's, or what the test says, on its own thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::Cell;
    use std::time::{SystemTime, UNIX_EPOCH};

    thread_local! {
        static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Has the clock stand still at this time.
    pub fn set(now_ms: u64) {
        NOW_MS.set(Some(now_ms));
    }

    pub(super) fn now_ms() -> u64 {
        NOW_MS.get().unwrap_or_else(|| {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
        })
    }
}
