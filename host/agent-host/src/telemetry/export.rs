//! Exports spans by OTLP over HTTP, with protobuf bodies.
//!
//! Spans that ended wait, encoded, in a bounded queue for a task that posts them in batches. When the
//! collector is down or slow the queue fills up, and further spans are dropped and counted: nothing that
//! serves ever waits for a collector. The task is woken when a batch begins and when it is full, and not for
//! each span: that was much of what tracing cost. It posts with a client of its own, whose requests are not
//! traced.

#[cfg(test)]
mod tests;

mod queue;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::error_chain::ErrorChain;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use outbound::{Client, PoolBounds, Request};
use prost::Message as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::otlp::Envelope;
use crate::config;
use queue::Batch;
pub(super) use queue::Queue;
pub use queue::SpanCounts;

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

/// Posts what is in the queue: to be run as a task.
pub struct Exporter {
    queue: Arc<Queue>,
    client: Client,
    endpoint: url::Url,
    headers: HeaderMap,
    timeout: Duration,
    envelope: Envelope,
    counts: Arc<SpanCounts>,
    /// Spans that were lost since the collector last took a whole batch; absent while it takes them.
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

/// What a collector answers (`ExportTraceServiceResponse`).
#[derive(prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// Which spans a collector did not take (`ExportTracePartialSuccess`).
#[derive(prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// A queue for spans and the exporter that empties it. Connects to nothing yet.
pub(super) fn new(config: &config::Tracing) -> anyhow::Result<(Arc<Queue>, Exporter)> {
    let (flusher, flushes) = channel(FLUSHES);
    let counts = Arc::new(SpanCounts::default());
    let queue = Arc::new(Queue::new(counts.clone()));
    // An export has a time of its own.
    let client = Client::for_url(config.endpoint.as_url(), Duration::MAX, PoolBounds::default())?;
    let exporter = Exporter {
        queue: queue.clone(),
        client,
        endpoint: config.endpoint.as_url().clone(),
        headers: headers(config)?,
        timeout: config.timeout,
        envelope: envelope(config),
        counts,
        outage: None,
        in_hand: 0,
        flushes,
        flusher: SpanFlusher(flusher),
    };
    Ok((queue, exporter))
}

fn envelope(config: &config::Tracing) -> Envelope {
    let asked = config.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let version = env!("CARGO_PKG_VERSION");
    let ours = [
        ("service.name", config.service_name.as_str()),
        ("service.version", version),
        ("project", config.project.as_str()),
    ];
    // Ours replace those of the same name.
    let asked = asked.filter(|(name, _)| ours.iter().all(|(own, _)| own != name));
    Envelope::new(asked.chain(ours), "agent-host", version)
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
            let flush = tokio::select! {
                biased;
                () = self.queue.due() => None,
                flush = self.flushes.recv() => flush,
                () = stopping.cancelled() => break,
            };
            let in_time = async {
                let until = Instant::now() + self.timeout;
                match flush {
                    None => drop(self.export_next(until).await),
                    Some(flushed) => {
                        while self.export_next(until).await {}
                        let _nobody_waits_any_more = flushed.send(());
                    }
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
        let until = Instant::now() + LAST_EXPORT;
        while self.export_next(until).await {}
    }

    /// Exports the next batch. False when nothing waits.
    async fn export_next(&mut self, until: Instant) -> bool {
        let batch = self.queue.take();
        let count = batch.spans();
        if count > 0 {
            self.in_hand = count;
            self.export(&batch, until).await;
            self.in_hand = 0;
        }
        count > 0
    }

    /// Posts a batch, and again while that may help and there is time.
    async fn export(&mut self, batch: &Batch, until: Instant) {
        let count = batch.spans();
        let body = Bytes::from(self.envelope.around(batch.encoded()));
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
                self.count_exported(count - rejected);
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
        let partial = Answer::decode(&*answer).ok().and_then(|it| it.partial_success);
        match partial.map(|it| (u64::try_from(it.rejected_spans).unwrap_or(0), it.error_message)) {
            Some((spans @ 1.., mut message)) => {
                message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
                Err(ExportError::Rejected { spans, message })
            }
            Some((0, _)) | None => Ok(()),
        }
    }

    /// The whole of a batch was taken.
    fn works(&mut self, count: usize) {
        self.count_exported(count);
        if let Some(lost) = self.outage.take() {
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

    fn count_exported(&self, count: usize) {
        self.counts.exported.fetch_add(count as u64, Ordering::Relaxed);
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
