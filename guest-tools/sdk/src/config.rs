//! What the operator configured for the component: `config = { … }` in its lines of the policy. Not for
//! secrets.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::config as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// What the policy says under a key.
#[must_use]
pub fn get(key: &str) -> Option<String> {
    host::get(key)
}

/// A native test's policy: what the test says, on its own thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    thread_local! {
        static VALUES: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Has [`get`](super::get) find a value from now on.
    pub fn set(key: &str, value: &str) {
        VALUES.with_borrow_mut(|values| values.insert(key.to_owned(), value.to_owned()));
    }

    pub(super) fn get(key: &str) -> Option<String> {
        VALUES.with_borrow(|values| values.get(key).cloned())
    }
}
