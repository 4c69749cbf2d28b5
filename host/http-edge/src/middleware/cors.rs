//! Tells browsers which pages may read an answer (Fetch standard, "CORS protocol"). It stands around
//! everything that answers, so that a page can read a 429 as well. Cookies are not used here, so credentials
//! are never allowed.
//!
//! `tower-http` has a layer for this that answers every `OPTIONS` request by itself; ours say what is
//! allowed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN, VARY};
use http::{HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use crate::origins::Origins;

/// What pages may read beside the few headers that they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Allow, Content-Location, ETag, Idempotent-Replayed, Location, Mcp-Session-Id, RateLimit-Limit, RateLimit-Policy, \
     RateLimit-Remaining, RateLimit-Reset, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, \
     X-RateLimit-Reset, X-Request-Id",
);

/// The service behind this layer.
#[derive(Debug, Clone)]
pub(crate) struct Cors<S> {
    inner: S,
    origins: Origins,
}

impl<S> Cors<S> {
    pub(crate) fn new(inner: S, origins: Origins) -> Self {
        Self { inner, origins }
    }
}

impl<S, B, C> Service<Request<B>> for Cors<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Shared<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let varies = !self.origins.is_empty();
        let origin = request.headers().get(ORIGIN).filter(|origin| self.origins.allow(origin)).cloned();
        Shared { inner: self.inner.call(request), varies, origin }
    }
}

pin_project! {
    /// Waits for the answer and writes on it who may read it.
    pub(crate) struct Shared<F> {
        #[pin]
        inner: F,
        varies: bool,
        origin: Option<HeaderValue>,
    }
}

impl<F, C, E> Future for Shared<F>
where
    F: Future<Output = Result<Response<C>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let mut answer = ready!(this.inner.poll(cx));
        if let (Ok(response), true) = (&mut answer, *this.varies) {
            let headers = response.headers_mut();
            // Caches keep one answer for each origin, those of requests without one included.
            headers.append(VARY, HeaderValue::from_static("Origin"));
            if let Some(origin) = this.origin.take() {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            }
        }
        Poll::Ready(answer)
    }
}
