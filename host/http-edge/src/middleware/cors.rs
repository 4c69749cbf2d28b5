//! Tells browsers which pages may read an answer (Fetch standard, "CORS protocol"). It stands around
//! everything that answers, so that a page can read a 429 as well. Cookies are not used here, so credentials
//! are never allowed.
//!
//! `tower-http` has a layer for this that answers every `OPTIONS` request by itself; ours say what is
//! allowed.

use axum::extract::Request;
use axum::response::Response;
use http::HeaderValue;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN, VARY};

use crate::origins::Origins;

/// What pages may read beside the few headers that they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Allow, Content-Location, ETag, Idempotent-Replayed, Location, Mcp-Session-Id, RateLimit-Limit, RateLimit-Policy, \
     RateLimit-Remaining, RateLimit-Reset, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, \
     X-RateLimit-Reset, X-Request-Id",
);

/// Writes on the answer to a request who may read it.
pub(crate) fn share(request: &Request, origins: &Origins) -> impl FnOnce(Response) -> Response + use<> {
    let varies = !origins.is_empty();
    let origin = request.headers().get(ORIGIN).filter(|origin| origins.allow(origin)).cloned();
    move |mut answer| {
        let headers = answer.headers_mut();
        if varies {
            // Caches keep one answer for each origin, those of requests without one included.
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        answer
    }
}
