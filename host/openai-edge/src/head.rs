//! What every answer begins with: an id, a time, and the model.

use std::time::{SystemTime, UNIX_EPOCH};

/// Who answers what, and when.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// Of the run that was asked for, without its prefix. An answer that was kept has an id of its own all
    /// the same: clients tell messages apart by it.
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
}

impl Head {
    pub(super) fn new(run_id: &str) -> Self {
        Self { id: run_id.trim_start_matches("run_").to_owned(), created: now() }
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
