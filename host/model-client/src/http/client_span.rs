//! The span of an HTTP exchange, as OpenTelemetry's conventions for HTTP clients describe it, and the
//! propagation of the trace context. Every attempt is a span of its own, so that retries can be seen.

use agent_core::trace;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tracing::field::Empty;
use tracing::{Span, debug_span};
use url::Url;

/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The span of a `POST` to `endpoint`. It holds the address without path and query, which may hold a key.
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

/// Records the status of a response.
pub(crate) fn record_status(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 400 {
        span.record("error.type", status.to_string());
    }
}

/// Records why there was no response.
pub(crate) fn record_error(span: &Span, error_type: &str) {
    span.record("error.type", error_type);
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
