//! Lets a client finish sending a body that nobody has read, before it is answered. Were it answered at once, the
//! connection would be closed under its hands, and most clients then report a broken pipe instead of the answer.
//!
//! It stands here and not where a body is refused, because most bodies that are not read are not refused: their
//! sender has no token, asks too often, or asks for what there is not.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::future::Either;
use http::header::EXPECT;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tower::Service;

/// How long a client whose answer is known may go on sending.
const LINGER: Duration = Duration::from_secs(1);

/// The service behind this layer.
#[derive(Debug, Clone)]
pub(super) struct Lingering<S> {
    inner: S,
}

impl<S> Lingering<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner }
    }
}

type Lingered<C> = Pin<Box<dyn Future<Output = Result<Response<C>, Infallible>> + Send>>;

impl<S, C> Service<Request<Body>> for Lingering<S>
where
    S: Service<Request<Body>, Response = Response<C>, Error = Infallible>,
    S::Future: Send + 'static,
    C: Send + 'static,
{
    type Response = Response<C>;
    type Error = Infallible;
    type Future = Either<S::Future, Lingered<C>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.body().is_end_stream() {
            return Either::Left(self.inner.call(request));
        }
        let waits_to_be_asked = request.headers().contains_key(EXPECT);
        let left = Left::default();
        let request =
            request.map(|body| Body::new(Lent { body: Some(body), read: false, left: left.clone() }));
        let answering = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let Ok(answer) = answering.await;
            // A client that was too slow has had its time.
            if let Some((body, read)) = left.take()
                && (read || !waits_to_be_asked)
                && answer.status() != StatusCode::REQUEST_TIMEOUT
            {
                // Too late is as good as in time: what counts is that it had a chance.
                let _ = tokio::time::timeout(LINGER, discard(body)).await;
            }
            Ok(answer)
        }))
    }
}

async fn discard(mut body: Body) {
    while let Some(Ok(_)) = body.frame().await {}
}

/// What is left of a body by whoever was given it, and whether they have read any of it.
#[derive(Clone, Default)]
struct Left(Arc<Mutex<Option<(Body, bool)>>>);

impl Left {
    fn put(&self, body: Body, read: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((body, read));
    }

    fn take(&self) -> Option<(Body, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body that comes back when it is dropped before its end.
struct Lent {
    /// Absent once it has ended.
    body: Option<Body>,
    read: bool,
    left: Left,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.read = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !body.is_end_stream()
        {
            self.left.put(body, self.read);
        }
    }
}
