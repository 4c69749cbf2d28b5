//! One JSON object per log entry: `timestamp`, `level`, `target`, `message`, then the entry's own fields and
//! those of the spans around it, all on one level, so that `request_id` is found where one looks for it, then
//! `trace_id` and `span_id` when it belongs to a trace.

use std::error::Error;
use std::fmt::Debug;
use std::io::Write as _;

use agent_core::error_chain::ErrorChain;
use agent_core::trace::{self, TraceContext};
use serde::Serializer as _;
use serde::ser::SerializeMap as _;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Writes JSON lines.
pub(super) struct JsonLines<W> {
    writer: W,
}

impl<W> JsonLines<W> {
    /// Writes to `writer`.
    pub(super) fn new(writer: W) -> Self {
        Self { writer }
    }
}

/// The fields of a span or of an event, in the order in which they were recorded.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add_missing(outer);
            }
        }
        if let Ok(mut line) = render(event, &fields, trace::current()) {
            line.push(b'\n');
            // There is nobody left to tell when the log cannot be written.
            let _ = self.writer.make_writer_for(event.metadata()).write_all(&line);
        }
    }
}

fn render(event: &Event<'_>, fields: &Fields, trace: Option<TraceContext>) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(512);
    let mut json = serde_json::Serializer::new(&mut line);
    let mut object = json.serialize_map(None)?;
    object.serialize_entry("timestamp", &now())?;
    object.serialize_entry("level", event.metadata().level().as_str())?;
    object.serialize_entry("target", event.metadata().target())?;
    let message = fields.0.iter().find(|(name, _)| *name == "message");
    if let Some((name, text)) = message {
        object.serialize_entry(name, text)?;
    }
    for (name, value) in fields.0.iter().filter(|(name, _)| *name != "message") {
        match *name {
            // The names of these keys are taken; an object that names a key twice is read differently
            // everywhere.
            "timestamp" | "level" | "target" => object.serialize_entry(&format!("fields.{name}"), value)?,
            name => object.serialize_entry(name, value)?,
        }
    }
    if let Some(trace) = trace.filter(|_| !fields.has("trace_id")) {
        object.serialize_entry("trace_id", trace.trace_digits().as_str())?;
        object.serialize_entry("span_id", trace.span_digits().as_str())?;
    }
    object.end()?;
    Ok(line)
}

/// RFC 3339, UTC, microseconds.
fn now() -> String {
    let mut text = String::with_capacity(27);
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        // A field whose name is a keyword of Rust is written `r#type`.
        let name = field.name().strip_prefix("r#").unwrap_or(field.name());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// What is nearer to the event is more to the point, so it is not replaced.
    fn add_missing(&mut self, outer: &Self) {
        for (name, value) in &outer.0 {
            if !self.has(name) {
                self.0.push((name, value.clone()));
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::from(value));
    }

    /// With all its causes: our errors do not repeat them in their own text.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, Value::String(ErrorChain(value).to_string()));
    }
}
