//! The router as an AWS Lambda function: requests come from Lambda's runtime interface, not from a socket.
//!
//! A function is frozen as soon as its answer was given, so nothing that goes on by itself (working off the
//! queue) is started there, see `cli/serve.rs`, and what is recorded and exported behind an answer elsewhere
//! is recorded and exported before it here.

mod event_path;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use futures::future::Inspect;
use futures::{FutureExt as _, Stream, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use lambda_http::lambda_runtime::Runtime;
use lambda_http::request::RequestContext;
use lambda_http::{Adapter, Request, RequestExt as _, Response, Service};
use run_service::journal::WriteBehind;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::layer::layer_fn;

use super::{Outcome, Signal};
use crate::http_recordings::Unwritten;
use crate::tasks::Tasks;
use crate::telemetry::export::SpanFlusher;

/// How long an answer waits for its run to be recorded, and for what else is written behind it: a store that
/// is down must not cost the answer.
const RECORDING: Duration = Duration::from_secs(2);

/// How long an answer waits for its spans to be exported. A collector that is slow or down costs that, and
/// spans, but no answer.
const EXPORTING: Duration = Duration::from_secs(1);

/// How long an event that is being answered may take after the signal. The platform kills a function that
/// takes longer than that to stop.
const LAST_EVENT: Duration = Duration::from_millis(1500);

/// How long an answer waits for both after the signal: it has to be given before the last event's time is
/// over.
const WRITING_AT_STOP: Duration = Duration::from_secs(1);

/// Answers Lambda's events until the first of `signals`, and then the one that is being answered.
///
/// API Gateway (both versions, any stage, custom domains), function URLs and load balancers are understood.
/// Its environment variables are read by the library: the platform sets all of them.
pub async fn run(
    router: Router,
    left_behind: LeftBehind,
    mut signals: impl Stream<Item = Signal> + Unpin,
) -> Result<Outcome, lambda_http::Error> {
    let (answering, mut answered) = watch::channel(false);
    let stopping = CancellationToken::new();
    let stop = stopping.clone();
    let handler = lambda_http::service_fn(move |mut event: Request| {
        let caller = SocketAddr::new(caller(&event), 0);
        event.extensions_mut().insert(ConnectInfo(caller));
        event_path::strip_prefix(&mut event);
        let (mut router, left_behind, stopping) = (router.clone(), left_behind.clone(), stopping.clone());
        async move {
            let Ok(answer) = router.call(event).await;
            let (head, body) = answer.into_parts();
            // The span of a request ends with its answer's body.
            let body = body.collect().await?.to_bytes();
            left_behind.settle(&stopping).await;
            Ok::<_, lambda_http::Error>(Response::from_parts(head, Full::<Bytes>::from(body)))
        }
    });
    let runtime = Runtime::new(Adapter::from(handler))
        .layer(layer_fn(move |inner| Counted { inner, answering: answering.clone() }));
    let mut events = pin!(runtime.run());
    let signal = tokio::select! {
        ended = &mut events => return ended.map(|()| Outcome::Clean),
        signal = signals.next() => match signal {
            Some(signal) => signal,
            None => return events.await.map(|()| Outcome::Clean),
        },
    };
    tracing::info!(%signal, "stopping");
    stop.cancel();
    let last = async {
        if answered.wait_for(|under_way| !under_way).await.is_err() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = last => Ok(Outcome::Clean),
        ended = events => ended.map(|()| Outcome::Clean),
        () = sleep(LAST_EVENT) => Ok(Outcome::Forced),
    }
}

/// What an event leaves behind, to be written before its answer is given.
#[derive(Clone)]
pub struct LeftBehind {
    /// Runs that wait to be recorded; absent when none are.
    pub recording: Option<WriteBehind>,
    /// The recordings of what tools were answered over HTTP; absent where none are made.
    pub(crate) http_recordings: Option<Unwritten>,
    /// Results that are written to the cache, and conversations that are given back.
    pub writes: Tasks,
    /// Spans that wait for their export; absent when none are recorded.
    pub spans: Option<SpanFlusher>,
}

impl LeftBehind {
    /// Waits until it is written, for as long as an answer may wait.
    async fn settle(&self, stopping: &CancellationToken) {
        let record = async {
            if let Some(recording) = &self.recording
                && timeout(RECORDING, recording.written()).await.is_err()
            {
                tracing::warn!("a run is recorded with a later event: the store does not answer");
            }
        };
        let record_http = async {
            if let Some(unwritten) = &self.http_recordings
                && timeout(RECORDING, unwritten.written()).await.is_err()
            {
                tracing::warn!("HTTP of tools is recorded with a later event: the database does not answer");
            }
        };
        let write = async {
            if timeout(RECORDING, self.writes.finished()).await.is_err() {
                tracing::warn!(
                    "a cached result or a conversation is settled with a later event: its store is slow"
                );
            }
        };
        let export = async {
            if let Some(spans) = &self.spans
                && timeout(EXPORTING, spans.flush()).await.is_err()
            {
                tracing::debug!("spans are exported with a later event: the collector is slow");
            }
        };
        let at_stop = async {
            stopping.cancelled().await;
            sleep(WRITING_AT_STOP).await;
        };
        tokio::select! {
            ((), (), (), ()) = futures::future::join4(record, record_http, write, export) => {}
            () = at_stop => tracing::warn!("records and spans are written after the last answer, if there is time"),
        }
    }
}

/// Says whether an event is under way: from its arrival until the platform has its answer.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    answering: watch::Sender<bool>,
}

type Answered<S, E> = Result<<S as Service<E>>::Response, <S as Service<E>>::Error>;

impl<S: Service<E>, E> Service<E> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = Inspect<S::Future, Box<dyn FnOnce(&Answered<S, E>) + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, event: E) -> Self::Future {
        self.answering.send_replace(true);
        let answering = self.answering.clone();
        self.inner.call(event).inspect(Box::new(move |_answer| {
            answering.send_replace(false);
        }))
    }
}

/// Who the front of the platform says is calling. A load balancer says nothing: its callers are told apart by
/// `TRUST_PROXY` and the header it writes.
fn caller(event: &Request) -> IpAddr {
    let named = match event.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) => context.identity.source_ip.as_deref(),
        Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.as_deref(),
        Some(_) | None => None,
    };
    named.and_then(|address| address.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
