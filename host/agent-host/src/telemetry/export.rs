//! Exports spans by OTLP over HTTP, with protobuf bodies.
//!
//! Spans that ended wait in a bounded queue for a task that posts them in batches. When the collector is down
//! or slow the queue fills up, and further spans are dropped and counted: nothing that serves ever waits for
//! a collector. The task posts with a client of its own, whose requests are not traced.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::error_chain::ErrorChain;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use outbound::{Client, PoolBounds, Request};
use prost::Message as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::config;

/// Spans that wait for their export.
const QUEUE: usize = 4096;

/// Spans that are posted together, and how long the first of them waits for others (the batch processor of
/// OpenTelemetry's SDKs has 512 and 5 s).
const BATCH: usize = 512;
const LINGER: Duration = Duration::from_secs(1);

/// The delay before a failed export is tried again; it doubles with each further attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// How long the end of the process waits for the last export.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// Flushes that are waited for at the same time; further ones wait for their turn.
const FLUSHES: usize = 16;

/// The longest answer of a collector that is read.
const ANSWER_LIMIT: usize = 64 << 10;

/// The most that is quoted of what a collector says, in bytes.
const LONGEST_MESSAGE: usize = 512;

/// What became of the spans that were recorded.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl SpanCounts {
    /// Spans that a collector took.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans that found the queue full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Spans that a collector did not take.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The entrance of the queue, where the SDK puts spans that ended.
#[derive(Debug)]
pub(super) struct Queue {
    sender: Sender<SpanData>,
    counts: Arc<SpanCounts>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _limit: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Posts what is in the queue: to be run as a task.
pub struct Exporter {
    queue: Receiver<SpanData>,
    client: Client,
    endpoint: url::Url,
    headers: HeaderMap,
    timeout: Duration,
    resource: ResourceAttributesWithSchema,
    counts: Arc<SpanCounts>,
    /// Spans that were lost since the collector last took any; absent while it takes them.
    outage: Option<u64>,
    /// Spans that were taken out of the queue and not accounted for yet.
    in_hand: usize,
    flushes: Receiver<oneshot::Sender<()>>,
    /// Keeps `flushes` open.
    flusher: SpanFlusher,
}

/// Asks an [`Exporter`] to export at once what waits. Clones ask the same one.
#[derive(Debug, Clone)]
pub struct SpanFlusher(Sender<oneshot::Sender<()>>);

impl SpanFlusher {
    /// Waits until every span that ended before was exported or lost, which takes as long as the collector
    /// does, and for ever if the exporter does not run. Dropping the future costs nothing but the wait.
    pub async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        if self.0.send(flushed).await.is_ok() {
            let _gone_with_the_exporter = wait.await;
        }
    }
}

/// Why the collector did not take a batch.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the collector could not be reached")]
    Unreachable(#[from] outbound::Error),
    #[error("the collector did not answer in time")]
    Late,
    #[error("the collector answered {status}")]
    Refused { status: StatusCode, retry_after: Option<Duration> },
    #[error("the collector rejected {spans} spans: {message:?}")]
    Rejected { spans: u64, message: String },
}

/// A queue for spans and the exporter that empties it. Connects to nothing yet.
pub(super) fn new(config: &config::Tracing, resource: &Resource) -> anyhow::Result<(Queue, Exporter)> {
    let (sender, queue) = channel(QUEUE);
    let (flusher, flushes) = channel(FLUSHES);
    let counts = Arc::new(SpanCounts::default());
    // An export has a time of its own.
    let client = Client::for_url(config.endpoint.as_url(), Duration::MAX, PoolBounds::default())?;
    let exporter = Exporter {
        queue,
        client,
        endpoint: config.endpoint.as_url().clone(),
        headers: headers(config)?,
        timeout: config.timeout,
        resource: ResourceAttributesWithSchema::from(resource),
        counts: counts.clone(),
        outage: None,
        in_hand: 0,
        flushes,
        flusher: SpanFlusher(flusher),
    };
    Ok((Queue { sender, counts }, exporter))
}

/// host/docs/interface/decisions-runs.md#tracing.
fn headers(config: &config::Tracing) -> anyhow::Result<HeaderMap> {
    let hidden = |text: &str| -> anyhow::Result<HeaderValue> {
        let mut value = HeaderValue::from_str(text)?;
        value.set_sensitive(true);
        Ok(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert("authorization", hidden(&format!("Bearer {}", config.api_key.expose()))?);
    headers.insert("x-api-key", hidden(config.api_key.expose())?);
    headers.insert("langsmith-project", HeaderValue::from_str(&config.project)?);
    for (name, value) in config.headers.iter() {
        headers.insert(name, value.clone());
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    Ok(headers)
}

impl Exporter {
    /// What became of the spans.
    pub fn counts(&self) -> Arc<SpanCounts> {
        self.counts.clone()
    }

    /// For whoever cannot wait for a batch to fill up.
    pub fn flusher(&self) -> SpanFlusher {
        self.flusher.clone()
    }

    /// Exports until `stopping`, then what is left in the queue, within 2 s. May be begun anew when it broke
    /// off: then the batch that it was exporting is lost.
    pub async fn run(&mut self, stopping: CancellationToken) {
        let lost = std::mem::take(&mut self.in_hand);
        self.count_lost(lost);
        while !stopping.is_cancelled() {
            let mut batch = Vec::new();
            let flush = tokio::select! {
                biased;
                received = self.queue.recv_many(&mut batch, BATCH) => {
                    if received == 0 { return }
                    self.fill(&mut batch, &stopping).await
                },
                flush = self.flushes.recv() => flush,
                () = stopping.cancelled() => break,
            };
            let in_time = async {
                self.export_batch(batch, Instant::now() + self.timeout).await;
                if let Some(flushed) = flush {
                    self.export_queue(Instant::now() + self.timeout).await;
                    let _nobody_waits_any_more = flushed.send(());
                }
            };
            tokio::select! {
                () = in_time => {}
                () = after(&stopping, LAST_EXPORT) => {
                    let lost = std::mem::take(&mut self.in_hand) + self.queue.len();
                    return self.count_lost(lost);
                }
            }
        }
        self.export_queue(Instant::now() + LAST_EXPORT).await;
    }

    /// Waits for others to be exported with the first spans of a batch, unless they are to be flushed.
    async fn fill(
        &mut self,
        batch: &mut Vec<SpanData>,
        stopping: &CancellationToken,
    ) -> Option<oneshot::Sender<()>> {
        let lingered = Instant::now() + LINGER;
        self.in_hand = batch.len();
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                received = self.queue.recv_many(batch, room) => if received == 0 { break },
                flush = self.flushes.recv() => return flush,
                () = tokio::time::sleep_until(lingered) => break,
                () = stopping.cancelled() => break,
            }
            self.in_hand = batch.len();
        }
        self.flushes.try_recv().ok()
    }

    /// Exports what is in the queue, in as many batches as that takes.
    async fn export_queue(&mut self, until: Instant) {
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Ok(span) = self.queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.export_batch(batch, until).await;
        }
    }

    async fn export_batch(&mut self, batch: Vec<SpanData>, until: Instant) {
        if !batch.is_empty() {
            self.in_hand = batch.len();
            self.export(batch, until).await;
            self.in_hand = 0;
        }
    }

    /// Posts a batch, and again while that may help and there is time.
    async fn export(&mut self, batch: Vec<SpanData>, until: Instant) {
        let count = batch.len();
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        let body = Bytes::from(request.encode_to_vec());
        let mut backoff = Backoff::new(FIRST_DELAY, Duration::MAX);
        let ended = loop {
            let posted = timeout_at(until, self.post(body.clone())).await.unwrap_or(Err(ExportError::Late));
            let wait = match &posted {
                // What a collector asks for may be more than the clock can count.
                Err(error) => {
                    error.delay(backoff.next()).filter(|wait| *wait < until.duration_since(Instant::now()))
                }
                Ok(()) => None,
            };
            let Some(wait) = wait else { break posted };
            sleep(wait).await;
        };
        match ended {
            Ok(()) => self.works(count),
            Err(ExportError::Rejected { spans, message }) => {
                let rejected = usize::try_from(spans).unwrap_or(count).min(count);
                self.works(count - rejected);
                self.fails(rejected, &ExportError::Rejected { spans, message });
            }
            Err(error) => self.fails(count, &error),
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), ExportError> {
        let request = Request::post(self.endpoint.clone(), self.headers.clone(), body);
        let mut response = self.client.send(request).await?;
        let status = response.status();
        if !status.is_success() {
            let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = retry_after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
            return Err(ExportError::Refused { status, retry_after });
        }
        let mut answer = Vec::new();
        match response.body_mut().read_into(&mut answer, ANSWER_LIMIT).await {
            Err(outbound::Error::TooLarge) => return Ok(()),
            read => read?,
        }
        // Many collectors answer with nothing, or with JSON: the status has said that the spans were taken.
        let partial = ExportTraceServiceResponse::decode(&*answer).ok().and_then(|it| it.partial_success);
        match partial.map(|it| (u64::try_from(it.rejected_spans).unwrap_or(0), it.error_message)) {
            Some((spans @ 1.., mut message)) => {
                message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
                Err(ExportError::Rejected { spans, message })
            }
            Some((0, _)) | None => Ok(()),
        }
    }

    fn works(&mut self, count: usize) {
        self.counts.exported.fetch_add(count as u64, Ordering::Relaxed);
        if count > 0
            && let Some(lost) = self.outage.take()
        {
            tracing::info!(lost, "traces are exported again");
        }
    }

    /// Logged when it begins, not for every batch.
    fn fails(&mut self, count: usize, error: &ExportError) {
        self.count_lost(count);
        if self.outage.is_none() {
            tracing::warn!(
                error = %ErrorChain(error),
                "traces cannot be exported: spans are lost until the collector takes them"
            );
        }
        *self.outage.get_or_insert(0) += count as u64;
    }

    fn count_lost(&self, count: usize) {
        self.counts.failed.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl ExportError {
    /// How long to wait before the same is tried again; nothing when that would not help (OTLP, "Failures").
    fn delay(&self, backoff: Duration) -> Option<Duration> {
        match self {
            Self::Unreachable(_) => Some(backoff),
            Self::Refused { status, retry_after } => match status.as_u16() {
                429 | 502 | 503 | 504 => Some(retry_after.unwrap_or(backoff)),
                _ => None,
            },
            Self::Late | Self::Rejected { .. } => None,
        }
    }
}

async fn after(stopping: &CancellationToken, grace: Duration) {
    stopping.cancelled().await;
    sleep(grace).await;
}
