//! Traces: which trace a request, a job and each step of a run belong to (W3C Trace Context, `traceparent`),
//! what tracing systems say beside it (`tracestate`), which is passed on as it came, and the spans.
//!
//! - `context`: one span of one trace, read and written.
//! - `current`: the [`Parent`] of what begins on this thread. A future is given one with [`InTrace`].
//!   Requests to other processes carry the [`current()`] context.
//! - `fields`, `span`: a [`Span`] with its attributes, a plain struct until it ends. Then the [`Recorder`]
//!   has it, if the process has one. Without a recorder a span is nothing but its parent, so that a caller's
//!   context is passed on as it came.
//!
//! What does not belong here: ids, the clock, sampling and exporting, which are the binary's.

mod context;
mod current;
mod fields;
mod span;

use std::sync::atomic::{AtomicBool, Ordering};

pub use context::{Digits, TraceContext, TraceState};
pub use current::{InTrace, Parent, Within, current, current_state, parent, within};
pub use fields::{Fields, Value};
pub use span::{Kind, Record, Recorder, Span, SpanEvent, record_with};

static CONTENT: AtomicBool = AtomicBool::new(false);

/// Decides for the process whether spans hold what users, models and tools say. They do not unless this is
/// called.
pub fn capture_content(capture: bool) {
    CONTENT.store(capture, Ordering::Relaxed);
}

/// Whether a span may hold what users, models and tools say.
pub fn captures_content() -> bool {
    CONTENT.load(Ordering::Relaxed)
}
