//! Log entries for people: the usual format of `tracing`, and the trace behind it.

use std::fmt;

use agent_core::trace;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Appends the ids of trace and span to entries that have them.
#[derive(Debug)]
pub(super) struct TextLines {
    format: Format,
}

impl TextLines {
    /// Coloured, or not.
    pub(super) fn new(ansi: bool) -> Self {
        Self { format: Format::default().with_ansi(ansi) }
    }
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(trace) = trace::current() else { return self.format.format_event(context, writer, event) };
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        writeln!(writer, "{line} trace_id={:032x} span_id={:016x}", trace.trace_id, trace.span_id)
    }
}
