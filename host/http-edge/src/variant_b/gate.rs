//! What surrounds everything under `/api/`, whoever answers it: each request is counted once, each answer
//! says so in its headers, and each error gets its words.
//!
//! Who is asked for a token is not decided here: see `caller`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::SystemTime;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::TryFutureExt;
use futures::future::{Either, MapOk};
use http::Request;
use tower::Service;

use super::Shared;
use super::error::Untold;
use super::windows::{self, Counted};
use crate::layers::ClientAddress;

/// What the limits and the error table apply to (interface, Limits: "everything under `/api/`").
const GATED: &str = "/api/";

/// The gate of one Variant B.
#[derive(Clone)]
pub(crate) struct Gate(Shared);

/// How a handler's [`Caller`](super::caller::Caller) tells the gate that the request has been counted. An extension
/// of every request under `/api/`.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<OnceLock<Counted>>);

impl Tally {
    /// Only the first one counts: a request is counted once.
    pub(super) fn write(&self, counted: Counted) {
        let _written_before = self.0.set(counted);
    }
}

impl Gate {
    pub(crate) fn new(edge: Shared) -> Self {
        Self(edge)
    }

    /// Completes an answer. One that came about without a count (there was no such route) is counted now, in
    /// the address's window alone: turning it away afterwards looks no different, since nothing was done.
    async fn complete(self, tally: Tally, address: Option<ClientAddress>, answer: Response) -> Response {
        let variant = &self.0.variant;
        let rates = self.0.settings.rates;
        let (counted, mut answer) = match tally.0.get() {
            Some(counted) => (*counted, answer),
            None => {
                let counted = windows::count(&*variant.windows, rates, address, None).await;
                let turned_away = counted.check_address().err().map(IntoResponse::into_response);
                (counted, turned_away.unwrap_or(answer))
            }
        };
        if let Some(untold) = answer.extensions_mut().remove::<Untold>() {
            answer = untold.tell(variant.production);
        }
        counted.write(answer.headers_mut(), SystemTime::now());
        answer
    }
}

/// The service behind the gate, or beside it where there is none.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    inner: S,
    gate: Option<Gate>,
}

impl<S> Gated<S> {
    pub(crate) fn new(inner: S, gate: Option<Gate>) -> Self {
        Self { inner, gate }
    }
}

/// What is not under `/api/` passes without an allocation.
type Passing<F, C> = MapOk<F, fn(http::Response<C>) -> Response>;
type Completed = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<S, B, C> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Response = http::Response<C>, Error = Infallible>,
    S::Future: Send + 'static,
    C: HttpBody<Data = Bytes> + Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Passing<S::Future, C>, Completed>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let gate = self.gate.as_ref().filter(|_| request.uri().path().starts_with(GATED)).cloned();
        let Some(gate) = gate else {
            return Either::Left(self.inner.call(request).map_ok(|answer| answer.map(Body::new)));
        };
        let tally = Tally::default();
        let address = request.extensions().get().copied();
        request.extensions_mut().insert(tally.clone());
        let answering = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let Ok(answer) = answering.await;
            Ok(gate.complete(tally, address, answer.map(Body::new)).await)
        }))
    }
}
