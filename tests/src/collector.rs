//! A collector of traces: it takes OTLP over HTTP, decodes the protobuf and keeps the spans.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::upstream::serve;
use test_servers::{Task, within};

/// The status that stands for no answer at all.
const SILENT: u16 = 0;

/// A server. Dropping it stops it.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    state: Arc<CollectorState>,
    _serving: Task<()>,
}

/// A span that was exported.
#[derive(Debug, Clone)]
pub struct Span {
    /// Name of the span.
    pub name: String,
    /// Kind of the span, as the protocol's enumeration says: `SPAN_KIND_SERVER` and so on.
    pub kind: &'static str,
    /// In hexadecimal digits.
    pub trace_id: String,
    /// In hexadecimal digits.
    pub span_id: String,
    /// In hexadecimal digits; empty when there is none.
    pub parent_id: String,
    /// Whether its status is that of a failure.
    pub failed: bool,
    /// Attributes of the span.
    pub attributes: BTreeMap<String, Value>,
    /// Name and attributes of each of its events, in their order.
    pub events: Vec<(String, BTreeMap<String, Value>)>,
    /// The attributes of the service that it comes from.
    pub resource: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct CollectorState {
    status: AtomicU16,
    spans: watch::Sender<Vec<Span>>,
    requests: watch::Sender<Vec<(String, HeaderMap)>>,
}

impl Collector {
    /// One that takes everything.
    pub async fn start() -> Self {
        let state = Arc::new(CollectorState {
            status: AtomicU16::new(200),
            spans: watch::Sender::default(),
            requests: watch::Sender::default(),
        });
        let (address, serving) = serve(Router::new().fallback(take).with_state(Arc::clone(&state))).await;
        Self { address, state, _serving: serving }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers with this status from now on, and keeps no spans unless it is a success.
    pub fn answers(&self, status: u16) {
        self.state.status.store(status, Ordering::Relaxed);
    }

    /// Never answers from now on.
    pub fn is_silent(&self) {
        self.answers(SILENT);
    }

    /// Waits until it was asked that often: path and headers of each request.
    pub async fn was_asked(&self, times: usize) -> Vec<(String, HeaderMap)> {
        let mut requests = self.state.requests.subscribe();
        let asked = requests.wait_for(|requests| requests.len() >= times);
        within("spans to be exported", asked).await.expect("the collector holds the sender").clone()
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.state.spans.borrow().clone()
    }

    /// Waits for a span of that name.
    pub async fn span(&self, name: &str) -> Span {
        self.span_where(name, |_| true).await
    }

    /// Waits for a span of that name that `is_it`.
    pub async fn span_where(&self, name: &str, is_it: impl Fn(&Span) -> bool) -> Span {
        let find = |spans: &Vec<Span>| spans.iter().find(|span| span.name == name && is_it(span)).cloned();
        let mut spans = self.state.spans.subscribe();
        let found = spans.wait_for(|spans| find(spans).is_some());
        let found = within(&format!("the span {name}"), found).await.expect("the collector holds the sender");
        find(&found).expect("it was there just now")
    }
}

impl Span {
    /// The value of an attribute; null when it is not there.
    pub fn attribute(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or(&Value::Null)
    }

    /// Whether `other` is its parent.
    pub fn is_child_of(&self, other: &Self) -> bool {
        (&self.trace_id, &self.parent_id) == (&other.trace_id, &other.span_id)
    }
}

async fn take(
    State(kept): State<Arc<CollectorState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    kept.requests.send_modify(|requests| requests.push((uri.path().to_owned(), headers)));
    let status = kept.status.load(Ordering::Relaxed);
    if status == SILENT {
        std::future::pending::<()>().await;
    }
    let status = StatusCode::from_u16(status).expect("a status of the test");
    if status.is_success() {
        let request = ExportTraceServiceRequest::decode(body).expect("an export request of OTLP");
        kept.spans.send_modify(|spans| spans.extend(read(request)));
    }
    status.into_response()
}

fn read(request: ExportTraceServiceRequest) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(of_resource.resource.map(|it| it.attributes).unwrap_or_default());
        let of_scopes = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(of_scopes.map(|span| read_span(span, resource.clone())));
    }
    spans
}

fn read_span(span: v1::Span, resource: BTreeMap<String, Value>) -> Span {
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
    Span {
        kind: span.kind().as_str_name(),
        failed: span.status.as_ref().is_some_and(|it| it.code() == v1::status::StatusCode::Error),
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: hex(&span.parent_span_id),
        attributes: attributes(span.attributes),
        events: span.events.into_iter().map(|event| (event.name, attributes(event.attributes))).collect(),
        resource,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, Value> {
    pairs.into_iter().map(|pair| (pair.key, pair.value.map_or(Value::Null, value))).collect()
}

fn value(any: AnyValue) -> Value {
    match any.value {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::BoolValue(value)) => json!(value),
        Some(any_value::Value::IntValue(value)) => json!(value),
        Some(any_value::Value::DoubleValue(value)) => json!(value),
        Some(any_value::Value::ArrayValue(list)) => list.values.into_iter().map(value).collect(),
        other => panic!("no attribute of ours has such a value: {other:?}"),
    }
}
