//! What a call's store carries, and the host functions a guest may call.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

use crate::bindings::agent::tool::{clock, context, log};
use crate::limits::{Limiter, Limits};
use crate::log_rate::LogRate;
use crate::progress::Progress;
pub(crate) use crate::text::printable;

/// Most key/value fields that are kept of one log line.
const LOG_FIELDS: usize = 16;

/// State of one call. Made for it and thrown away after it.
pub(crate) struct CallState {
    pub(crate) limiter: Limiter,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    request_id: String,
    log: LogBudget,
    /// Made when the guest first asks for something of WASI, which most never do.
    wasi: Option<Box<(WasiCtx, ResourceTable)>>,
}

/// How much more a call may write to the log.
struct LogBudget {
    component: Arc<str>,
    tool: Arc<str>,
    lines_left: u32,
    lines_dropped: u32,
    line_bytes: usize,
    /// What all calls of the component may write over time.
    rate: Arc<LogRate>,
}

/// Whom a call is for.
pub(crate) struct Caller {
    pub(crate) request_id: String,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    pub(crate) log_rate: Arc<LogRate>,
}

impl CallState {
    pub(crate) fn new(caller: Caller, limits: &Limits) -> Self {
        Self {
            limiter: Limiter::new(limits.memory_bytes, caller.progress.clone()),
            deadline: caller.deadline,
            progress: caller.progress,
            request_id: caller.request_id,
            log: LogBudget {
                component: caller.component,
                tool: caller.tool,
                lines_left: limits.log_lines,
                lines_dropped: 0,
                line_bytes: limits.log_line_bytes,
                rate: caller.log_rate,
            },
            wasi: None,
        }
    }
}

impl Drop for CallState {
    /// Says in the log how many of the component's lines are not in it, however the call ended. Not for every
    /// call: that would be a flood of its own.
    fn drop(&mut self) {
        if self.log.lines_dropped > 0
            && let Some(dropped) = self.log.rate.dropped(self.log.lines_dropped, Instant::now())
        {
            tracing::warn!(
                target: "tool",
                request_id = self.request_id,
                component = &*self.log.component,
                tool = &*self.log.tool,
                dropped,
                "the tool wrote more log lines than it may"
            );
        }
    }
}

impl context::Host for CallState {
    fn request_id(&mut self) -> String {
        self.limiter.forgive();
        self.request_id.clone()
    }

    fn remaining_ms(&mut self) -> u64 {
        self.limiter.forgive();
        let left = self.deadline.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn cancelled(&mut self) -> bool {
        self.limiter.forgive();
        self.progress.is_cancelled()
    }
}

impl clock::Host for CallState {
    fn now_ms(&mut self) -> u64 {
        self.limiter.forgive();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

impl log::Host for CallState {
    fn write(&mut self, level: String, message: String, fields: Vec<(String, String)>) {
        self.limiter.forgive();
        let left = self.log.lines_left.checked_sub(1).filter(|_| self.log.rate.take(Instant::now()));
        let Some(left) = left else {
            self.log.lines_dropped = self.log.lines_dropped.saturating_add(1);
            return;
        };
        self.log.lines_left = left;
        let (message, fields) = self.log.bound(&message, &fields);
        let (request_id, component, tool) = (self.request_id.as_str(), &*self.log.component, &*self.log.tool);
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

impl LogBudget {
    /// Message and fields, cut to size and without anything that could forge a line or drive a terminal.
    fn bound(&self, message: &str, fields: &[(String, String)]) -> (String, String) {
        let message = printable(message, self.line_bytes);
        let mut room = self.line_bytes.saturating_sub(message.len());
        let mut text = String::new();
        for (key, value) in fields.iter().take(LOG_FIELDS) {
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

impl WasiView for CallState {
    /// A WASI that grants nothing: no files, no sockets, no environment, no arguments, silent standard streams.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi.get_or_insert_with(|| {
            let mut closed = WasiCtx::builder();
            closed.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
            closed.max_random_size(RANDOM_BYTES);
            let mut table = ResourceTable::new();
            table.set_max_capacity(WASI_RESOURCES);
            Box::new((closed.build(), table))
        });
        WasiCtxView { ctx: &mut wasi.0, table: &mut wasi.1 }
    }
}

/// Most WASI resources (streams, pollables) that one call may hold: a guest must not fill the host's memory
/// with handles.
const WASI_RESOURCES: usize = 1_000;

/// Most random bytes of one request for them: they are made on the host's side, where no limit of the guest
/// holds, and asking again is cheap.
const RANDOM_BYTES: u64 = 64 << 10;
