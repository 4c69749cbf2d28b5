//! Spans: what is noted of a piece of work while it is under way, for the recorder of the process.

use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::context::{TraceContext, TraceState};
use super::current::{Parent, parent};
use super::fields::Fields;

/// Most events of a span; further ones are counted.
const MOST_EVENTS: usize = 128;

/// What a span is beside those around it, as OpenTelemetry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work that no other process asks for.
    Internal,
    /// A request that is answered here.
    Server,
    /// A request to another process.
    Client,
    /// Work that is handed over, to be done later.
    Producer,
    /// Work that was handed over, being done.
    Consumer,
}

/// What of a span is recorded.
#[derive(Debug)]
pub struct Record {
    /// The name of the span, unless its fields have another one.
    pub name: &'static str,
    /// Whether others ask for it, or it asks others.
    pub kind: Kind,
    /// Which span of which trace it is.
    pub context: TraceContext,
    /// The span that it is within, if any.
    pub parent: Option<Parent>,
    /// When it began, in nanoseconds since 1970.
    pub begun: u64,
    /// Attributes, and the name that overrides `name`.
    pub fields: Fields,
    /// What happened within it, in its order.
    pub events: Vec<SpanEvent>,
    /// How many events were too many.
    pub dropped_events: u32,
}

/// Something that happened within a span.
#[derive(Debug)]
pub struct SpanEvent {
    /// The name of what happened.
    pub name: &'static str,
    /// When, in nanoseconds since 1970.
    pub at: u64,
    /// What is known of it.
    pub fields: Fields,
}

/// Makes contexts for spans, and takes those that ended.
pub trait Recorder: Send + Sync {
    /// The context of a new span within `parent`. The span is recorded if it is sampled.
    fn context(&self, parent: Option<&Parent>) -> TraceContext;

    /// The time, in nanoseconds since 1970.
    fn now(&self) -> u64;

    /// Takes a span that ended now. Called wherever a span is dropped: it must not wait.
    fn end(&self, record: Record);
}

static RECORDER: OnceLock<Box<dyn Recorder>> = OnceLock::new();

/// Has `recorder` take all spans of the process from now on. False when there was one before.
pub fn record_with(recorder: Box<dyn Recorder>) -> bool {
    RECORDER.set(recorder).is_ok()
}

/// A piece of work, or nothing of it when nobody records it. It ends when it is dropped.
#[derive(Default)]
pub struct Span {
    /// The parent of what is within.
    inner: Option<Parent>,
    record: Option<Box<Mutex<Record>>>,
}

impl Span {
    /// No span: what is within it is within `parent`.
    pub fn none(parent: Option<Parent>) -> Self {
        Self { inner: parent, record: None }
    }

    /// Begins a span within the [`parent`] of here, with the fields that `fill` sets.
    pub fn begin(kind: Kind, name: &'static str, fill: impl FnOnce(&mut Fields)) -> Self {
        if RECORDER.get().is_none() {
            Self::none(None)
        } else {
            Self::begin_within(parent(), kind, name, fill)
        }
    }

    /// Begins a span within `parent`. A trace begins at a server, a producer or a consumer: of other kinds,
    /// such as in health checks, nothing is recorded without a parent.
    pub fn begin_within(
        parent: Option<Parent>,
        kind: Kind,
        name: &'static str,
        fill: impl FnOnce(&mut Fields),
    ) -> Self {
        let Some(recorder) = RECORDER.get() else { return Self::none(parent) };
        if parent.is_none() && matches!(kind, Kind::Internal | Kind::Client) {
            return Self::none(None);
        }
        let context = recorder.context(parent.as_ref());
        let state: Option<TraceState> = parent.as_ref().and_then(|parent| parent.state.clone());
        let record = context.sampled.then(|| {
            let mut fields = Fields::new();
            fill(&mut fields);
            let (begun, events) = (recorder.now(), Vec::new());
            let record = Record { name, kind, context, parent, begun, fields, events, dropped_events: 0 };
            Box::new(Mutex::new(record))
        });
        Self { inner: Some(Parent { context, state, is_remote: false }), record }
    }

    /// Sets further fields of a span that is recorded.
    pub fn record(&self, fill: impl FnOnce(&mut Fields)) {
        if let Some(record) = &self.record {
            fill(&mut record.lock().fields);
        }
    }

    /// Notes that something happens now.
    pub fn add_event(&self, name: &'static str, fill: impl FnOnce(&mut Fields)) {
        let (Some(record), Some(recorder)) = (&self.record, RECORDER.get()) else { return };
        let mut record = record.lock();
        if record.events.len() == MOST_EVENTS {
            record.dropped_events = record.dropped_events.saturating_add(1);
            return;
        }
        let mut fields = Fields::new();
        fill(&mut fields);
        record.events.push(SpanEvent { name, at: recorder.now(), fields });
    }

    /// Whether what is noted of it goes anywhere.
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// The parent of what is within, for [`InTrace`](super::InTrace).
    pub fn inner(&self) -> Option<Parent> {
        self.inner.clone()
    }

    /// Context of the span, or of the caller's span that it passes on.
    pub fn context(&self) -> Option<TraceContext> {
        self.inner.as_ref().map(|parent| parent.context)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(record), Some(recorder)) = (self.record.take(), RECORDER.get()) {
            recorder.end(record.into_inner());
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", &self.context()).finish_non_exhaustive()
    }
}
