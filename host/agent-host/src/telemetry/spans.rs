//! Records spans of `tracing` as OpenTelemetry spans.
//!
//! A span is recorded when it declares the field `otel.kind` (`server`, `client`, `producer`, `consumer`,
//! `internal`). `otel.name` replaces its name, `error.type` marks it as failed, every other field is an
//! attribute. A trace begins at a server, a consumer or a producer: spans of other kinds without a parent,
//! such as those of health checks, are not recorded. An entry that declares the field `otel.event` is an
//! event of the span that it is in, named by that field; it is in no log.
//!
//! `tracing-opentelemetry` does the same for the general case. It is not used because it makes a span's id
//! only when the span is entered, so the log cannot name it, has no lists and no unsigned numbers, and takes
//! a caller's context only from crates that know OpenTelemetry.

use std::fmt::{self, Debug};
use std::time::SystemTime;

use agent_core::trace::{self, TraceContext};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    Tracer as _,
};
use opentelemetry::{Array, Context as ParentContext, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

const KIND: &str = "otel.kind";
const NAME: &str = "otel.name";
const EVENT: &str = "otel.event";
const ERROR: &str = "error.type";

/// Attributes whose values are lists; here they have one element.
const LISTS: [&str; 1] = ["gen_ai.response.finish_reasons"];

/// The longest text of an attribute, in bytes.
const LONGEST_TEXT: usize = 16 << 10;

/// A layer that records spans with a tracer.
#[derive(Debug)]
pub(super) struct SpanRecorder {
    tracer: SdkTracer,
}

/// The recorded span, among the extensions of its counterpart.
struct Recorded(Span);

impl SpanRecorder {
    /// Records with `tracer`.
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self { tracer }
    }
}

/// Whether a span is recorded, as far as its declaration says.
pub(super) fn declares_kind(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().field(KIND).is_some()
}

/// Whether an entry is an event of its span, and none of the log.
pub(super) fn is_span_event(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && metadata.fields().field(EVENT).is_some()
}

/// What the layer is to see: all spans of ours, because any of them may have a caller's context, and their
/// events.
pub(super) fn is_recorded(metadata: &Metadata<'_>) -> bool {
    (metadata.is_span() || is_span_event(metadata)) && super::is_ours(metadata)
}

impl<S> Layer<S> for SpanRecorder
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if !declares_kind(attributes.metadata()) {
            return;
        }
        let mut fields = Fields::with_room(attributes.fields().len());
        attributes.record(&mut fields);
        let kind = fields.kind.take().unwrap_or(SpanKind::Internal);
        let parent = parent_of(&span);
        if parent.is_none() && matches!(kind, SpanKind::Internal | SpanKind::Client) {
            return;
        }
        let name = fields.name.take().unwrap_or_else(|| attributes.metadata().name().to_owned());
        let builder = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_start_time(SystemTime::now())
            .with_attributes(std::mem::take(&mut fields.attributes));
        let parent = parent
            .map_or_else(ParentContext::new, |parent| ParentContext::new().with_remote_span_context(parent));
        let mut recorded = self.tracer.build_with_context(builder, &parent);
        fields.apply(&mut recorded);
        if let Some(own) = context_of(recorded.span_context()) {
            let mut extensions = span.extensions_mut();
            extensions.replace(own);
            extensions.insert(Recorded(recorded));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(Recorded(recorded)) = span.extensions_mut().get_mut()
        {
            let mut fields = Fields::with_room(values.len());
            values.record(&mut fields);
            fields.apply(recorded);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !is_span_event(event.metadata()) {
            return;
        }
        if let Some(span) = context.event_span(event)
            && let Some(Recorded(recorded)) = span.extensions_mut().get_mut()
        {
            let mut fields = Fields::with_room(event.fields().count());
            event.record(&mut fields);
            recorded.add_event(fields.event.unwrap_or_default(), fields.attributes);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        // The lock must not be held while the span is handed on.
        let recorded = span.extensions_mut().remove::<Recorded>();
        if let Some(Recorded(mut recorded)) = recorded {
            recorded.end();
        }
    }
}

/// The context of the nearest span around this one that has one: recorded here, or a caller's.
fn parent_of<'s, S: LookupSpan<'s>>(span: &SpanRef<'s, S>) -> Option<SpanContext> {
    span.scope().skip(1).find_map(|span| {
        let extensions = span.extensions();
        let own = extensions.get::<Recorded>().map(|Recorded(recorded)| recorded.span_context().clone());
        own.or_else(|| extensions.get().map(|context| remote(context, extensions.get())))
    })
}

/// What a caller sent.
fn remote(context: &trace::Attached, state: Option<&trace::TraceState>) -> SpanContext {
    let TraceContext { trace_id, span_id, sampled } = context.0;
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let state = state.and_then(|state| state.as_str().parse().ok()).unwrap_or_default();
    SpanContext::new(TraceId::from(trace_id), SpanId::from(span_id), flags, true, state)
}

fn context_of(context: &SpanContext) -> Option<trace::Attached> {
    context.is_valid().then(|| {
        trace::Attached(TraceContext {
            trace_id: u128::from_be_bytes(context.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(context.span_id().to_bytes()),
            sampled: context.is_sampled(),
        })
    })
}

/// The fields of a span, as OpenTelemetry names them.
#[derive(Default)]
struct Fields {
    kind: Option<SpanKind>,
    name: Option<String>,
    event: Option<String>,
    failed: bool,
    attributes: Vec<KeyValue>,
}

impl Fields {
    /// For at most so many attributes.
    fn with_room(attributes: usize) -> Self {
        Self { attributes: Vec::with_capacity(attributes), ..Self::default() }
    }

    fn apply(self, span: &mut Span) {
        span.set_attributes(self.attributes);
        if let Some(name) = self.name {
            span.update_name(name);
        }
        if self.failed {
            span.set_status(Status::error(""));
        }
    }

    fn text(&mut self, field: &Field, mut text: String) {
        match field.name() {
            KIND => self.kind = read_kind(&text),
            NAME => self.name = Some(text),
            EVENT => self.event = Some(text),
            name => {
                self.failed |= name == ERROR;
                text.truncate(text.floor_char_boundary(LONGEST_TEXT));
                let value = match LISTS.contains(&name) {
                    true => Value::Array(Array::String(vec![StringValue::from(text)])),
                    false => Value::from(text),
                };
                self.attributes.push(KeyValue::new(name, value));
            }
        }
    }

    fn value(&mut self, field: &Field, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(field.name(), value));
    }
}

fn read_kind(text: &str) -> Option<SpanKind> {
    match text {
        "server" => Some(SpanKind::Server),
        "client" => Some(SpanKind::Client),
        "producer" => Some(SpanKind::Producer),
        "consumer" => Some(SpanKind::Consumer),
        "internal" => Some(SpanKind::Internal),
        _ => None,
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, value);
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorded").finish()
    }
}
