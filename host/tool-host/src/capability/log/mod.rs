//! `agent:tool/log`: the tool's lines in the service's log, bounded per call ([`Limits`]) and per component over time
//! (`rate.rs`), cut to size, and without anything that could forge a line or drive a terminal.

mod rate;

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::HasSelf;

use super::{Capability, Imports};
use crate::bindings::agent::tool::log::{Host, add_to_linker};
use crate::call::CallState;
use crate::limits::Limits;
use crate::text::printable;

pub(crate) use rate::LogRate;

pub(super) const CAPABILITY: Capability = Capability {
    imports: Imports::Contract("log"),
    link: |linker| add_to_linker::<_, HasSelf<_>>(linker, |call: &mut CallState| call),
    ended: Some(report_dropped),
};

/// Most key/value fields that are kept of one line.
const FIELDS: usize = 16;

/// How much more a call may write.
pub(crate) struct LogBudget {
    lines_left: u32,
    lines_dropped: u32,
    line_bytes: usize,
    /// What all calls of the component may write over time.
    rate: Arc<LogRate>,
}

impl LogBudget {
    /// The budget of one call.
    pub(crate) fn new(limits: &Limits, rate: Arc<LogRate>) -> Self {
        Self { lines_left: limits.log_lines, lines_dropped: 0, line_bytes: limits.log_line_bytes, rate }
    }

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

    /// Message and fields, cut to size and cleaned.
    fn bound(&self, message: &str, fields: &[(String, String)]) -> (String, String) {
        let message = printable(message, self.line_bytes);
        let mut room = self.line_bytes.saturating_sub(message.len());
        let mut text = String::new();
        for (key, value) in fields.iter().take(FIELDS) {
            let field = format!("{}={} ", printable(key, room), printable(value, room));
            room = room.saturating_sub(field.len());
            text.push_str(&field);
            if room == 0 {
                break;
            }
        }
        text.truncate(text.trim_end().len());
        (message, text)
    }
}

impl Host for CallState {
    fn write(&mut self, level: String, message: String, fields: Vec<(String, String)>) {
        self.limiter.clear_denied();
        if !self.log.take_line() {
            return;
        }
        let (message, fields) = self.log.bound(&message, &fields);
        let (request_id, component, tool) = (self.request_id.as_str(), &*self.component, &*self.tool);
        let fields = (!fields.is_empty()).then_some(fields.as_str());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(target: "tool", request_id, component, tool, fields, "{message}")
            };
        }
        match level.as_str() {
            "debug" => line!(debug),
            "warn" => line!(warn),
            "error" => line!(error),
            _ => line!(info),
        }
    }
}

/// Says in the log how many of the component's lines are not in it. Not after every call: that would be a flood of its
/// own.
fn report_dropped(call: &CallState) {
    let lines = call.log.lines_dropped;
    if lines > 0
        && let Some(dropped) = call.log.rate.dropped(lines, Instant::now())
    {
        tracing::warn!(
            target: "tool",
            request_id = call.request_id,
            component = &*call.component,
            tool = &*call.tool,
            dropped,
            "the tool wrote more log lines than it may"
        );
    }
}
