//! A middleware that answers the requests that fail a check, and passes the others on. The check is
//! synchronous, so that a request that passes costs no allocation.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::response::Response;
use futures::future::{Either, Ready, ready};
use http::Request;
use tower::Service;

/// The service behind the check. The check may change the request, and answers one that fails.
#[derive(Debug, Clone)]
pub(crate) struct Guard<S, F> {
    inner: S,
    check: F,
}

impl<S, F> Guard<S, F> {
    pub(crate) fn new(inner: S, check: F) -> Self {
        Self { inner, check }
    }
}

impl<S, B, F> Service<Request<B>> for Guard<S, F>
where
    S: Service<Request<B>, Response = Response, Error = Infallible>,
    F: Fn(&mut Request<B>) -> Option<Response>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match (self.check)(&mut request) {
            None => Either::Left(self.inner.call(request)),
            Some(answer) => Either::Right(ready(Ok(answer))),
        }
    }
}
