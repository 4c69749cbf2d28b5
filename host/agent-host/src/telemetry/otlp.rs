//! Spans in the protobuf of OTLP (`opentelemetry/proto/trace/v1/trace.proto`), written straight from the
//! structs: types generated from the protocol would have each name and value copied into an allocation of its
//! own first. The numbers are those of the fields there.

use agent_core::trace::{Fields, Kind, Record, SpanEvent, Value};
use prost::length_delimiter_len;

/// How a field is encoded: the low bits of its tag.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Flags of a span: `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` and `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The code of a failure, `STATUS_CODE_ERROR`.
const FAILED: u64 = 2;

/// What surrounds the spans of every export: the service, and the scope that they were recorded in.
#[derive(Debug)]
pub(super) struct Envelope {
    /// The service, encoded as `ResourceSpans.resource`.
    resource: Vec<u8>,
    /// The scope, encoded as `ScopeSpans.scope`.
    scope: Vec<u8>,
}

impl Envelope {
    /// Of a service with these attributes, and a scope of that name and version.
    pub(super) fn new<'a>(
        attributes: impl Iterator<Item = (&'a str, &'a str)>,
        name: &str,
        version: &str,
    ) -> Self {
        let (mut resource, mut scope) = (Vec::new(), Vec::new());
        nested(&mut resource, 1, |resource| {
            for (name, value) in attributes {
                attribute(resource, 1, name, Value::Text(value));
            }
        });
        nested(&mut scope, 1, |scope| {
            text(scope, 1, name);
            text(scope, 2, version);
        });
        Self { resource, scope }
    }

    /// An `ExportTraceServiceRequest` with these `ScopeSpans.spans`.
    pub(super) fn around(&self, spans: &[u8]) -> Vec<u8> {
        let of_scope = self.scope.len() + spans.len();
        let of_resource = self.resource.len() + 1 + length_delimiter_len(of_scope) + of_scope;
        let mut request = Vec::with_capacity(1 + length_delimiter_len(of_resource) + of_resource);
        tag(&mut request, 1, BYTES);
        varint(&mut request, of_resource as u64);
        request.extend_from_slice(&self.resource);
        tag(&mut request, 2, BYTES);
        varint(&mut request, of_scope as u64);
        request.extend_from_slice(&self.scope);
        request.extend_from_slice(spans);
        request
    }
}

/// Appends a span that ended at that time, as one of `ScopeSpans.spans`.
pub(super) fn span(out: &mut Vec<u8>, record: &Record, ended: u64) {
    nested(out, 2, |span| {
        bytes(span, 1, &record.context.trace_id.to_be_bytes());
        bytes(span, 2, &record.context.span_id.to_be_bytes());
        let mut flags = KNOWS_REMOTE | u32::from(record.context.sampled);
        if let Some(parent) = &record.parent {
            if let Some(state) = &parent.state {
                text(span, 3, state.as_str());
            }
            bytes(span, 4, &parent.context.span_id.to_be_bytes());
            flags |= if parent.is_remote { IS_REMOTE } else { 0 };
        }
        text(span, 5, record.fields.name().unwrap_or(record.name));
        tag(span, 6, VARINT);
        varint(span, number_of(record.kind));
        fixed64(span, 7, record.begun);
        // The clock may have been set back meanwhile.
        fixed64(span, 8, ended.max(record.begun));
        attributes(span, 9, &record.fields);
        for occurred in &record.events {
            event(span, 11, occurred);
        }
        if record.dropped_events > 0 {
            tag(span, 12, VARINT);
            varint(span, u64::from(record.dropped_events));
        }
        if record.fields.has_failed() {
            nested(span, 15, |status| {
                tag(status, 3, VARINT);
                varint(status, FAILED);
            });
        }
        tag(span, 16, FIXED32);
        span.extend_from_slice(&flags.to_le_bytes());
    });
}

fn number_of(kind: Kind) -> u64 {
    match kind {
        Kind::Internal => 1,
        Kind::Server => 2,
        Kind::Client => 3,
        Kind::Producer => 4,
        Kind::Consumer => 5,
    }
}

fn event(out: &mut Vec<u8>, field: u32, occurred: &SpanEvent) {
    nested(out, field, |event| {
        fixed64(event, 1, occurred.at);
        text(event, 2, occurred.name);
        attributes(event, 3, &occurred.fields);
    });
}

fn attributes(out: &mut Vec<u8>, field: u32, fields: &Fields) {
    for (name, value) in fields.iter() {
        attribute(out, field, name, value);
    }
}

/// Appends a name and its value, a `KeyValue`.
fn attribute(out: &mut Vec<u8>, field: u32, name: &str, value: Value<'_>) {
    nested(out, field, |pair| {
        text(pair, 1, name);
        nested(pair, 2, |any| match value {
            Value::Text(value) => text(any, 1, value),
            Value::Int(value) => {
                tag(any, 3, VARINT);
                // Two's complement, as protobuf has it of negative numbers.
                varint(any, value.cast_unsigned());
            }
            Value::Double(value) => fixed64(any, 4, value.to_bits()),
            Value::List(value) => nested(any, 5, |list| nested(list, 1, |any| text(any, 1, value))),
        });
    });
}

/// A message within a message. Its length stands before it and is known afterwards: most take one byte.
fn nested(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, BYTES);
    let place = out.len();
    out.push(0);
    fill(out);
    let size = out.len() - place - 1;
    if let (Ok(short @ ..0x80), Some(byte)) = (u8::try_from(size), out.get_mut(place)) {
        *byte = short;
        return;
    }
    let mut prefix = Vec::with_capacity(length_delimiter_len(size));
    varint(&mut prefix, size as u64);
    out.splice(place..=place, prefix);
}

fn text(out: &mut Vec<u8>, field: u32, text: &str) {
    bytes(out, field, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    tag(out, field, BYTES);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn tag(out: &mut Vec<u8>, field: u32, encoding: u8) {
    varint(out, u64::from(field << 3) | u64::from(encoding));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[derive(prost::Message)]
    struct Outer {
        #[prost(message, repeated, tag = "1")]
        inner: Vec<Inner>,
    }

    #[derive(prost::Message)]
    struct Inner {
        #[prost(string, tag = "5")]
        text: String,
        #[prost(fixed64, tag = "7")]
        number: u64,
    }

    #[test]
    fn a_message_within_a_message_has_its_length_before_it() {
        let sizes = [0, 1, 100, 120, 127, 128, 16_370, 16_384, 70_000];
        let mut encoded = Vec::new();
        for size in sizes {
            nested(&mut encoded, 1, |inner| {
                text(inner, 5, &"x".repeat(size));
                fixed64(inner, 7, size as u64);
            });
        }
        let read = Outer::decode(&*encoded).unwrap().inner;
        let read: Vec<_> = read.iter().map(|inner| (inner.text.len(), inner.number)).collect();
        assert_eq!(read, sizes.map(|size| (size, size as u64)));
    }
}
