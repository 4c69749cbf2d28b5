//! How far a call has got, for whoever watches.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::progress as host;

/// Tells how far the call has got; `fraction` is from 0 to 1. Bounded as lines of the log are. False when nobody waits any
/// more: the tool can wind up.
pub fn report(message: &str, fraction: Option<f64>) -> bool {
    host::report(message, fraction)
}

/// A native test's: somebody always waits.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    pub(super) fn report(message: &str, fraction: Option<f64>) -> bool {
        eprintln!("progress: {message} {fraction:?}");
        true
    }
}
