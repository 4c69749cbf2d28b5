//! Lines for the operator's log. The host bounds them in number and length, drops what is over and counts it.

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::log as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// Writes a line of interest to someone who develops the tool.
pub fn debug(message: &str) {
    write("debug", message, &[]);
}

/// Writes a line of ordinary interest.
pub fn info(message: &str) {
    write("info", message, &[]);
}

/// Writes a line about something that should not go on like this.
pub fn warn(message: &str) {
    write("warn", message, &[]);
}

/// Writes a line about something that went wrong.
pub fn error(message: &str) {
    write("error", message, &[]);
}

/// Writes a line with fields of its own: `level` is `debug`, `info`, `warn` or `error`.
pub fn write(level: &str, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> =
        fields.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    host::write(level, message, &fields);
}

/// A native test's log: standard error, and a list for the test, each thread's own.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    }

    /// What was written since this was last asked: level and message.
    #[must_use]
    pub fn take() -> Vec<(String, String)> {
        LINES.take()
    }

    pub(super) fn write(level: &str, message: &str, fields: &[(String, String)]) {
        eprintln!("{level}: {message} {fields:?}");
        LINES.with_borrow_mut(|lines| lines.push((level.to_owned(), message.to_owned())));
    }
}
