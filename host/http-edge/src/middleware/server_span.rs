//! A request in traces: the caller's trace context, and the span of the request as OpenTelemetry's
//! conventions for HTTP servers describe it.

use agent_core::trace::{Kind, Parent, Span, TraceContext, TraceState};
use axum::extract::MatchedPath;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Method, Request};

use super::client_address::ClientAddress;
use super::log_text::LogText;

/// W3C Trace Context.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Longest name of a host, in bytes.
const LONGEST_HOST: usize = 255;

/// Asked every few seconds by orchestrators and scrapers, and no work of the service.
const PROBES: [&str; 5] = ["/health", "/health/live", "/health/ready", "/metrics", "/ready"];

/// The span of `request`, within the caller's. Unless traces are recorded the caller's context is passed on.
pub(super) fn begin<B>(request: &Request<B>) -> Span {
    let path = request.uri().path();
    let caller = read_context(request.headers()).map(|context| {
        let states = request.headers().get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok());
        Parent::remote(context, TraceState::parse(states))
    });
    if PROBES.contains(&path.strip_suffix('/').unwrap_or(path)) {
        return Span::none(caller);
    }
    Span::begin_within(caller, Kind::Server, "http.server", |span| {
        let method = known_method(request.method()).unwrap_or("_OTHER");
        let route = request.extensions().get::<MatchedPath>().map(route_of);
        let between = if route.is_some() { " " } else { "" };
        span.named(format_args!("{method}{between}{}", route.unwrap_or_default()));
        span.text("http.request.method", method);
        span.text("http.route", route);
        span.text("url.scheme", request.uri().scheme_str().unwrap_or("http"));
        span.text("server.address", host(request));
        span.shown("url.path", LogText { text: path, limit: 512 });
        if let Some(ClientAddress(address)) = request.extensions().get() {
            span.shown("client.address", address);
        }
    })
}

/// The name of a route in metrics and traces. With a slash at its end, as clients of the Node deployment may
/// write it, it is the same route.
pub(super) fn route_of(matched: &MatchedPath) -> &str {
    let path = matched.as_str();
    path.strip_suffix('/').filter(|route| !route.is_empty()).unwrap_or(path)
}

/// Notes the answer.
pub(super) fn end(span: &Span, status: u16) {
    span.record(|span| {
        span.int("http.response.status_code", u64::from(status));
        if status >= 500 {
            span.failed(status);
        }
    });
}

/// Notes that the client did not wait for the answer.
pub(super) fn client_gone(span: &Span) {
    span.record(|span| span.failed("client_gone"));
}

/// The one context that the caller sent. Two of them contradict each other.
fn read_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (first, second) = (values.next()?, values.next());
    if second.is_some() { None } else { TraceContext::parse(first.to_str().ok()?) }
}

/// The name under which the service was called, without its port, and an IPv6 address without its brackets.
fn host<B>(request: &Request<B>) -> Option<&str> {
    let named = || request.headers().get(HOST)?.to_str().ok();
    let host = request.uri().authority().map(Authority::as_str).or_else(named)?;
    let end = host.rfind(':').filter(|colon| !host[*colon..].contains(']')).unwrap_or(host.len());
    let host = &host[..end];
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(host).filter(|host| (1..=LONGEST_HOST).contains(&host.len()))
}

/// The methods of HTTP and `PATCH`; callers may make up any number of others.
pub(super) fn known_method(method: &Method) -> Option<&'static str> {
    let name = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_host_is_what_the_caller_named_without_its_port() {
        for (uri, header, expected) in [
            ("/", Some("example.test:3000"), Some("example.test")),
            ("/", Some("[::1]:3000"), Some("::1")),
            ("/", Some("[::1]"), Some("::1")),
            ("https://example.test/a:b", Some("other"), Some("example.test")),
            ("/", None, None),
        ] {
            let mut request = Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header(HOST, header);
            }
            assert_eq!(host(&request.body(()).unwrap()), expected, "{uri} {header:?}");
        }
    }

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
