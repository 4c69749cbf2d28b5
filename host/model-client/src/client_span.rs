//! An HTTP exchange in traces: its span, as OpenTelemetry's conventions for HTTP clients describe it, and the trace
//! context that goes with a request. Every attempt is a span of its own, so that retries can be seen.

use agent_core::trace;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tracing::field::Empty;
use tracing::{Span, debug_span};
use url::Url;

use crate::transport::{Answer, Broken};

/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The span of a `POST` to `endpoint`. The address is in it without path and query, which may hold a key.
pub(crate) fn begin(endpoint: &Url) -> Span {
    debug_span!(
        "POST",
        otel.kind = "client",
        http.request.method = "POST",
        server.address = endpoint.host_str(),
        server.port = endpoint.port_or_known_default(),
        http.response.status_code = Empty,
        "error.type" = Empty,
    )
}

/// Notes how the exchange ended.
pub(crate) fn end(span: &Span, ended: &Result<Answer, Broken>) {
    match ended {
        Ok(answer) => answered(span, answer.status.as_u16()),
        Err(Broken::Late) => failed(span, "timeout"),
        Err(Broken::Cut(_)) => failed(span, "connection"),
        Err(Broken::Endless) => failed(span, "too_large"),
    }
}

/// Notes the status of an answer.
pub(crate) fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 400 {
        span.record("error.type", status.to_string());
    }
}

/// Notes that there was no answer.
pub(crate) fn failed(span: &Span, error: &str) {
    span.record("error.type", error);
}

/// Sends the context of the current span along, if it has one.
pub(crate) fn pass_context_on(headers: &mut HeaderMap) {
    if let Some(context) = trace::current()
        && let Ok(value) = HeaderValue::from_str(&context.to_string())
    {
        headers.insert(TRACEPARENT, value);
    }
}
