//! Facts about the call under way.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::context as host;

/// The id of the HTTP request or job on whose behalf the call is made.
#[must_use]
pub fn request_id() -> String {
    host::request_id()
}

/// Milliseconds until the host interrupts the call.
#[must_use]
pub fn remaining_ms() -> u64 {
    host::remaining_ms()
}

/// Whether the caller has gone. A tool that works long should ask now and then and give up early; the host
/// interrupts it in any case.
#[must_use]
pub fn cancelled() -> bool {
    host::cancelled()
}

/// A native test's call: nobody's, unhurried, never cancelled.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    pub(super) fn request_id() -> String {
        "native".to_owned()
    }

    pub(super) fn remaining_ms() -> u64 {
        u64::MAX
    }

    pub(super) fn cancelled() -> bool {
        false
    }
}
