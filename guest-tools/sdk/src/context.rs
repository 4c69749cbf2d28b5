//! Facts about the call under way.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::context as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

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

/// The id of the run that makes the call; empty for a call from the command line.
#[must_use]
pub fn run_id() -> String {
    host::run_id()
}

/// Names this call of this run. It stays the same when the run is retried or resumed, so it is an idempotency
/// key for whatever the tool asks of others.
#[must_use]
pub fn call_id() -> String {
    host::call_id()
}

/// Which attempt at the run makes the call, from 1.
#[must_use]
pub fn attempt() -> u32 {
    host::attempt()
}

/// The W3C trace context of the call, if it is traced: to be sent along with requests.
#[must_use]
pub fn traceparent() -> Option<String> {
    get("traceparent")
}

/// Names the user on whose behalf the call is made: opaque, the same in every call of that user to this
/// component, and of no use to another component. Absent where callers are not known. Answers of a run that
/// called a component which asks this are not shared with other users, so ask only if it matters.
#[must_use]
pub fn user() -> Option<String> {
    host::user()
}

/// A further fact, if the host knows it.
#[must_use]
pub fn get(key: &str) -> Option<String> {
    host::get(key)
}

/// A native test's call: nobody's, unhurried, not cancelled, unless the test says otherwise, on its own
/// thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::{Cell, RefCell};

    thread_local! {
        static USER: RefCell<Option<String>> = const { RefCell::new(None) };
        static CANCELLED: Cell<bool> = const { Cell::new(false) };
        static REMAINING_MS: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    /// Has the call be made for this user.
    pub fn set_user(user: &str) {
        USER.set(Some(user.to_owned()));
    }

    /// Has the caller be gone.
    pub fn cancel() {
        CANCELLED.set(true);
    }

    /// Has the call so much time left.
    pub fn set_remaining_ms(milliseconds: u64) {
        REMAINING_MS.set(milliseconds);
    }

    pub(super) fn request_id() -> String {
        "native".to_owned()
    }

    pub(super) fn remaining_ms() -> u64 {
        REMAINING_MS.get()
    }

    pub(super) fn cancelled() -> bool {
        CANCELLED.get()
    }

    pub(super) fn run_id() -> String {
        "run_native".to_owned()
    }

    pub(super) fn call_id() -> String {
        "call_native".to_owned()
    }

    pub(super) fn attempt() -> u32 {
        1
    }

    pub(super) fn get(_key: &str) -> Option<String> {
        None
    }

    pub(super) fn user() -> Option<String> {
        USER.with_borrow(Clone::clone)
    }
}
