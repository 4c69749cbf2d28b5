//! How far a call has got, for whoever watches.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::progress as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// Tells how far the call has got; `fraction` is from 0 to 1. Bounded as lines of the log are. False when
/// nobody waits any more: the tool can wind up.
pub fn report(message: &str, fraction: Option<f64>) -> bool {
    host::report(message, fraction)
}

/// A native test's: somebody waits until the test says that nobody does, each thread for itself.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::{Cell, RefCell};

    thread_local! {
        static IS_LEFT: Cell<bool> = const { Cell::new(false) };
        static REPORTS: RefCell<Vec<(String, Option<f64>)>> = const { RefCell::new(Vec::new()) };
    }

    /// Has nobody wait any more.
    pub fn leave() {
        IS_LEFT.set(true);
    }

    /// What was reported since this was last asked.
    #[must_use]
    pub fn take() -> Vec<(String, Option<f64>)> {
        REPORTS.take()
    }

    pub(super) fn report(message: &str, fraction: Option<f64>) -> bool {
        REPORTS.with_borrow_mut(|reports| reports.push((message.to_owned(), fraction)));
        !IS_LEFT.get()
    }
}
