//! The span of an HTTP exchange, as OpenTelemetry's conventions for HTTP clients describe it, and the
//! propagation of the trace context. Every attempt is a span of its own, so that retries can be seen.

use agent_core::trace::{self, Kind, Span};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The span of a `POST` to `endpoint`. It holds the address without path and query, which may hold a key.
pub(crate) fn begin(endpoint: &Url) -> Span {
    Span::begin(Kind::Client, "POST", |span| {
        span.text("http.request.method", "POST");
        span.text("server.address", endpoint.host_str());
        span.int("server.port", endpoint.port_or_known_default().map(u64::from));
    })
}

/// Records the status of a response.
pub(crate) fn record_status(span: &Span, status: u16) {
    span.record(|span| {
        span.int("http.response.status_code", u64::from(status));
        if status >= 400 {
            span.failed(status);
        }
    });
}

/// Records why there was no response.
pub(crate) fn record_error(span: &Span, error_type: &str) {
    span.record(|span| span.failed(error_type));
}

/// Adds the context of the current span to a request, if there is one.
pub(crate) fn inject_context(headers: &mut HeaderMap) {
    if let Some(context) = trace::current()
        && let Ok(value) = HeaderValue::from_str(&context.to_string())
    {
        headers.insert(TRACEPARENT, value);
        let state = trace::current_state().and_then(|state| HeaderValue::from_str(state.as_str()).ok());
        headers.extend(state.map(|state| (TRACESTATE, state)));
    }
}
