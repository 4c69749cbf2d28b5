//! One log line per request, written when its answer is known or when nobody waits for one any more.
//!
//! It quotes no body, no header and no query string. What went wrong is found in the answer's extensions,
//! with every source of the error; nobody else logs it.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use agent_core::trace::{self, InTrace as _, Within};
use axum::extract::MatchedPath;
use http::{Method, Request, Response, StatusCode, Uri};
use pin_project_lite::pin_project;
use tower::Service;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Level, Span};

use super::client_address::ClientAddress;
use super::log_text::LogText;
use super::request_id::RequestId;
use super::server_span;
use crate::answer::{Failure, RoutineAnswer};
use crate::dependencies::{AnsweredRequest, ObserveRequest};

/// What a log filter names to pick or silence these lines.
const TARGET: &str = "http_edge::request";

/// Stands in the log where an answer's status would: nginx's number for a client that did not wait.
const CLIENT_GONE: u16 = 499;

/// The user of a request, an extension of every request: authentication sets it, and the line has it even
/// when the client goes away before there is an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestUser(Arc<OnceLock<Arc<str>>>);

impl RequestUser {
    /// Only the first call counts.
    pub(crate) fn set(&self, user: &str) {
        let _known_before = self.0.set(user.into());
    }

    /// Nobody before the token was verified, and when it was not.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(|user| &**user)
    }
}

/// The service behind this layer.
#[derive(Clone)]
pub(crate) struct RequestLog<S> {
    inner: S,
    observe: ObserveRequest,
}

impl<S> RequestLog<S> {
    pub(crate) fn new(inner: S, observe: ObserveRequest) -> Self {
        Self { inner, observe }
    }
}

impl<S, B, C> Service<Request<B>> for RequestLog<S>
where
    S: Service<Request<B>, Response = Response<C>, Error = Infallible>,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = Answered<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let mut line = Line::begin(&mut request, self.observe.clone());
        let span = line.span();
        line.traced = server_span::begin(&request);
        let parent = line.traced.inner();
        let inner = span.in_scope(|| trace::within(parent.as_ref(), || self.inner.call(request)));
        Answered { inner: inner.in_trace(parent).instrument(span), line }
    }
}

pin_project! {
    /// Waits for the answer. When it is dropped instead, the work under way ends before its line is written,
    /// because fields are dropped in this order.
    pub(crate) struct Answered<F> {
        #[pin]
        inner: Instrumented<Within<F>>,
        line: Line,
    }
}

impl<F, C> Future for Answered<F>
where
    F: Future<Output = Result<Response<C>, Infallible>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.inner.poll(cx));
        this.line.end(&response);
        Poll::Ready(Ok(response))
    }
}

/// The line of a request that is not answered yet. Dropping it means that it never will be.
struct Line {
    observe: ObserveRequest,
    user: RequestUser,
    route: Option<MatchedPath>,
    method: Method,
    uri: Uri,
    request_id: Option<RequestId>,
    client: Option<ClientAddress>,
    began: Instant,
    written: bool,
    /// The request in traces.
    traced: trace::Span,
}

impl Line {
    fn begin<B>(request: &mut Request<B>, observe: ObserveRequest) -> Self {
        let user = RequestUser::default();
        request.extensions_mut().insert(user.clone());
        Self {
            observe,
            user,
            route: request.extensions().get().cloned(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            request_id: request.extensions().get().cloned(),
            client: request.extensions().get().copied(),
            began: Instant::now(),
            written: false,
            traced: trace::Span::default(),
        }
    }

    /// Gives the request's id to every line that is logged on its behalf. It is of the highest level, so that
    /// no `LOG_LEVEL` that lets a line through takes its id away.
    fn span(&self) -> Span {
        tracing::error_span!(target: TARGET, "request", request_id = self.request_id.as_ref().map(tracing::field::display))
    }

    fn end<C>(&mut self, response: &Response<C>) {
        self.written = true;
        let failure = response.extensions().get::<Failure>();
        let routine = response.extensions().get::<RoutineAnswer>().is_some();
        let status = response.status();
        // A 501 is about what the client wants, and anybody can ask for that.
        let is_ours = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
        let level = match (is_ours, routine) {
            (true, false) => Level::ERROR,
            // The service works and says truthfully that something it depends on does not.
            (true, true) => Level::WARN,
            // Mistakes of clients included: they are no trouble of ours.
            (false, false) => Level::INFO,
            (false, true) => Level::DEBUG,
        };
        server_span::end(&self.traced, status.as_u16());
        self.write(level, status.as_u16(), failure);
    }

    fn write(&self, level: Level, status: u16, error: Option<impl Display>) {
        use tracing::field::display;

        let took = self.began.elapsed();
        let route = self.route.as_ref().map(server_span::route_of);
        let (method, trace) =
            (server_span::known_method(&self.method).unwrap_or("other"), self.traced.context());
        (self.observe)(&AnsweredRequest { route, method, status, took, trace });
        let duration_ms = took.as_micros() as f64 / 1000.0;
        let method = LogText { text: &self.method, limit: 32 };
        let path = LogText { text: self.uri.path(), limit: 512 };
        let request_id = self.request_id.as_ref().map(display);
        let client = self.client.map(|ClientAddress(address)| display(address));
        let user_id = self.user.get().map(|text| display(LogText { text, limit: 256 }));
        let error = error.map(|text| display(LogText { text, limit: 4096 }));
        // The level of an event is a constant of its place in the source, so every level has a place.
        macro_rules! write_at {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET, $level,
                    %method, %path, status, duration_ms, request_id, client, user_id, error,
                    "{method} {path} {status} in {duration_ms} ms"
                )
            };
        }
        // The log names the trace of the line by what it is within.
        trace::within(self.traced.inner().as_ref(), || match level {
            Level::ERROR => write_at!(Level::ERROR),
            Level::WARN => write_at!(Level::WARN),
            Level::INFO => write_at!(Level::INFO),
            _ => write_at!(Level::DEBUG),
        });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.written {
            server_span::client_gone(&self.traced);
            // Only a shutdown that has lost its patience looks the same from here.
            self.write(Level::INFO, CLIENT_GONE, Some("the client went away before its answer was ready"));
        }
    }
}
