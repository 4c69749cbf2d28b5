//! A request in traces: the caller's trace context, and the span of the request as OpenTelemetry's conventions for HTTP
//! servers describe it.

use agent_core::trace::{self, TraceContext};
use axum::extract::MatchedPath;
use http::{HeaderMap, Method, Request};
use tracing::field::Empty;
use tracing::{Span, debug_span};

use super::client_address::ClientAddress;
use super::log_text::LogText;

/// W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// Asked every few seconds by orchestrators and scrapers, and no work of the service.
const PROBES: [&str; 5] = ["/health", "/health/live", "/health/ready", "/metrics", "/ready"];

/// The span of `request`, within `around`, which takes the caller's context. Disabled unless traces are recorded.
pub(super) fn begin<B>(request: &Request<B>, around: &Span) -> Span {
    let path = request.uri().path();
    if let Some(context) = read_context(request.headers()) {
        trace::continue_from(around, context);
    }
    if PROBES.contains(&path) {
        return Span::none();
    }
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let client = request.extensions().get().map(|ClientAddress(address)| tracing::field::display(address));
    debug_span!(
        parent: around,
        "http.server",
        otel.kind = "server",
        otel.name = %format_args!("{method}{}{}", if route.is_some() { " " } else { "" }, route.unwrap_or_default()),
        http.request.method = method,
        http.route = route,
        url.path = %LogText { text: path, limit: 512 },
        client.address = client,
        http.response.status_code = Empty,
        "error.type" = Empty,
    )
}

/// Notes the answer.
pub(super) fn end(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("error.type", status.to_string());
    }
}

/// Notes that the client did not wait for the answer.
pub(super) fn client_gone(span: &Span) {
    span.record("error.type", "client_gone");
}

/// The one context that the caller sent. Two of them contradict each other.
fn read_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (first, second) = (values.next()?, values.next());
    if second.is_some() { None } else { TraceContext::parse(first.to_str().ok()?) }
}

/// Callers may make up methods, so that any other is the word of the conventions for it.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn one_valid_traceparent_is_believed() {
        let read = |value: &str| {
            read_context(&HeaderMap::from_iter([(TRACEPARENT.parse().unwrap(), value.parse().unwrap())]))
        };
        assert_eq!(read("what"), None);
        assert_eq!(read(VALID), TraceContext::parse(VALID));
        assert_eq!(read_context(&HeaderMap::new()), None);
        let mut twice = HeaderMap::new();
        twice.append(TRACEPARENT, VALID.parse().unwrap());
        twice.append(TRACEPARENT, VALID.parse().unwrap());
        assert_eq!(read_context(&twice), None);
    }
}
