//! A middleware that writes on an answer what it has read of the request. It is synchronous, so that
//! a request costs no allocation.

use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use futures::TryFutureExt as _;
use futures::future::MapOk;
use tower::Service;

/// The service behind it. `read` may change the request; what it returns writes on the answer.
#[derive(Debug, Clone)]
pub(crate) struct Annotate<S, F> {
    inner: S,
    read: F,
}

impl<S, F> Annotate<S, F> {
    pub(crate) fn new(inner: S, read: F) -> Self {
        Self { inner, read }
    }
}

impl<S, F, W> Service<Request> for Annotate<S, F>
where
    S: Service<Request, Response = Response>,
    F: Fn(&mut Request) -> W,
    W: FnOnce(Response) -> Response,
{
    type Response = Response;
    type Error = S::Error;
    type Future = MapOk<S::Future, W>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let write = (self.read)(&mut request);
        self.inner.call(request).map_ok(write)
    }
}
