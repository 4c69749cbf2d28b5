//! `agent:tool/log`: the tool's lines in the service's log, bounded per call ([`ToolLimits`]) and per
//! component over time (`rate.rs`), cut to size, and without anything that could forge a line or drive a
//! terminal.

mod rate;

use json_schema::text_sanitizer::printable;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use tool_grants::Granted;

use super::context::CallIds;
use super::imports::Imports;
use crate::bindings::agent::tool::log::Host;
use crate::limits::ToolLimits;

pub(crate) use rate::LogRate;

pub(super) const IMPORTS: Imports = Imports::Contract("log");

/// Most key/value fields that are kept of one line.
const FIELDS: usize = 16;

/// The log of one call. Clones share what the call may write: what it says through the contract, reports as
/// progress and prints.
#[derive(Debug, Clone)]
pub(crate) struct LogState(Arc<Mutex<Lines>>);

/// Whose lines they are.
#[derive(Debug)]
pub(crate) struct LogSource {
    pub(crate) ids: CallIds,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
}

/// Whose lines they are, and how many more the call may write.
#[derive(Debug)]
struct Lines {
    source: LogSource,
    lines_left: u32,
    lines_dropped: u32,
    line_bytes: usize,
    /// What all calls of the component may write over time.
    rate: Arc<LogRate>,
    /// Finds the values of secrets, which no line may have.
    granted: Option<Arc<Granted>>,
}

impl LogState {
    /// The state of one call.
    pub(crate) fn new(
        limits: &ToolLimits,
        source: LogSource,
        rate: Arc<LogRate>,
        granted: Option<Arc<Granted>>,
    ) -> Self {
        let (lines_left, line_bytes) = (limits.log_lines, limits.log_line_bytes);
        let lines = Lines { source, lines_left, lines_dropped: 0, line_bytes, rate, granted };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Writes a line, if the call may write another one. `level` is one of the contract's words.
    pub(super) fn write_line(&self, level: &str, message: &str, fields: &[(String, String)]) {
        self.0.lock().write(level, message, fields);
    }

    /// Writes a line of the host's own about the call. Whoever calls this bounds how many there are.
    pub(super) fn write_host_line(&self, level: &str, message: &str, fields: &[(String, String)]) {
        self.0.lock().put(level, message, fields);
    }

    /// A text of the guest's as others than the operator may read it: without secrets, at most about `most`
    /// bytes.
    pub(super) fn shown(&self, text: &str, most: usize) -> String {
        printable(&self.0.lock().without_secrets(text), most)
    }
}

impl Lines {
    /// Takes one line from the budget. Counts it as dropped if there is none left.
    fn take_line(&mut self) -> bool {
        match self.lines_left.checked_sub(1).filter(|_| self.rate.try_take(Instant::now())) {
            Some(left) => {
                self.lines_left = left;
                true
            }
            None => {
                self.lines_dropped = self.lines_dropped.saturating_add(1);
                false
            }
        }
    }

    fn without_secrets(&self, text: &str) -> String {
        match &self.granted {
            Some(granted) => granted.scanner().scan_text(text).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Message and fields, cut to size and cleaned.
    fn bound(&self, message: &str, fields: &[(String, String)]) -> (String, String) {
        let message = printable(&self.without_secrets(message), self.line_bytes);
        let room = self.line_bytes.saturating_sub(message.len());
        let fields = shown_fields(fields, room, |text| self.without_secrets(text));
        (message, fields)
    }

    fn write(&mut self, level: &str, message: &str, fields: &[(String, String)]) {
        if self.take_line() {
            self.put(level, message, fields);
        }
    }

    fn put(&self, level: &str, message: &str, fields: &[(String, String)]) {
        let (message, fields) = self.bound(message, fields);
        let LogSource { ids, component, tool } = &self.source;
        let (request_id, component, tool) = (ids.request(), &**component, &**tool);
        let fields = (!fields.is_empty()).then_some(fields.as_str());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(target: "tool", request_id, component, tool, fields, "{message}")
            };
        }
        match level {
            "debug" => line!(debug),
            "warn" => line!(warn),
            "error" => line!(error),
            _ => line!(info),
        }
    }
}

/// Fields as one text of at most about `room` bytes. Each is searched for secrets as it is shown: one may be
/// its key, or lie over key and value.
fn shown_fields(
    fields: &[(String, String)],
    room: usize,
    without_secrets: impl Fn(&str) -> String,
) -> String {
    let mut shown = String::new();
    for (key, value) in fields.iter().take(FIELDS) {
        if shown.len() >= room {
            break;
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        let field = without_secrets(&format!("{key}={value}"));
        let field = printable(&field, room.saturating_sub(shown.len()));
        shown.push_str(&field);
    }
    shown
}

impl Host for LogState {
    fn write(&mut self, level: String, message: String, fields: Vec<(String, String)>) {
        self.write_line(&level, &message, &fields);
    }
}

impl Drop for Lines {
    /// Says in the log how many of the component's lines are not in it, however the call ended. Not after
    /// every call: that would be a flood of its own.
    fn drop(&mut self) {
        if self.lines_dropped > 0
            && let Some(dropped) = self.rate.dropped(self.lines_dropped, Instant::now())
        {
            tracing::warn!(
                target: "tool",
                request_id = self.source.ids.request(),
                component = &*self.source.component,
                tool = &*self.source.tool,
                dropped,
                "the tool wrote more log lines than it may"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &[(&str, &str)], room: usize) -> String {
        let fields: Vec<_> =
            fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let marked = |text: &str| text.replace("user=hunter2", "[secret]").replace("hunter2", "[key]");
        shown_fields(&fields, room, marked)
    }

    #[test]
    fn a_secret_is_found_in_keys_and_over_key_and_value() {
        assert_eq!(shown(&[("a", "1"), ("b", "2 3")], 100), "a=1 b=2 3");
        assert_eq!(shown(&[("hunter2", "1"), ("a", "hunter2")], 100), "[key]=1 a=[key]");
        assert_eq!(shown(&[("user", "hunter2")], 100), "[secret]");
    }

    #[test]
    fn all_fields_together_have_the_room_that_a_message_leaves() {
        let long = "x".repeat(1_000);
        let long = long.as_str();
        for room in [0, 1, 7, 100] {
            let text = shown(&[(long, long), (long, long)], room);
            assert_eq!(text.trim_end_matches('…').len(), room, "{text}");
        }
        assert_eq!(shown(&[("a", "1"), (long, long)], 6), "a=1 xx…");
        assert_eq!(shown(&[("a", "1"); 20], 1_000).matches("a=1").count(), FIELDS);
    }
}
