//! What was lost of what an operator should see.

use prometheus::core::Collector;

use super::family::{Readings, Series};
use crate::telemetry::export::SpanCounts;
use crate::telemetry::{dropped_lines, span_counts};

const LOG: [Series<u64>; 1] = [Series::counter(
    "agent_log_lines_dropped_total",
    "Log lines that were dropped because the reader of the log was too slow or gone, or its disk full.",
    |dropped| Some(*dropped as f64),
)];

const TRACES: [Series<&SpanCounts>; 3] = [
    Series::counter("agent_trace_spans_exported_total", "Spans that the collector took.", |counts| {
        Some(counts.exported() as f64)
    }),
    Series::counter(
        "agent_trace_spans_dropped_total",
        "Spans that were dropped because too many waited for their export.",
        |counts| Some(counts.dropped() as f64),
    ),
    Series::counter("agent_trace_spans_failed_total", "Spans that the collector did not take.", |counts| {
        Some(counts.failed() as f64)
    }),
];

/// Asks the log at every scrape.
pub(super) fn log() -> prometheus::Result<impl Collector + use<>> {
    Readings::new("", LOG, || Some(dropped_lines()))
}

/// Asks the export of traces at every scrape. Without one there are no samples.
pub(super) fn traces() -> prometheus::Result<impl Collector + use<>> {
    Readings::new("", TRACES, span_counts)
}
