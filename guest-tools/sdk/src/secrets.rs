//! Which secrets the operator gave the component. A tool never sees a value: the host adds it to the requests
//! that the policy names.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::secrets as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// Whether the policy gives the component a secret of that name.
#[must_use]
pub fn exists(name: &str) -> bool {
    host::exists(name)
}

/// A native test's policy: what the test says, on its own thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static NAMES: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Has a secret of that name exist from now on.
    pub fn add(name: &str) {
        NAMES.with_borrow_mut(|names| names.insert(name.to_owned()));
    }

    pub(super) fn exists(name: &str) -> bool {
        NAMES.with_borrow(|names| names.contains(name))
    }
}
