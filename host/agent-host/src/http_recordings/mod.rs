//! What tools are answered over HTTP, on its way into the store (`TOOLS_RECORD_HTTP=on`), so that `agent-tool
//! replay` can answer them the same again.
//!
//! A call never waits for any of it: [`Recorder`] puts exchanges into a bounded queue, and [`Drain`] writes
//! them with a task of its own. What the queue has no room for, what the store's bounds leave no room for and
//! what the store fails to write is left away, counted, and said in the log.
//!
//! What does not belong here: what may be in an exchange (`tool-egress/src/answers/recording.rs` leaves
//! credentials away) and which answer a request gets when a run is replayed (`agent-tool/src/replay`).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use agent_core::ports::{HttpRecording, HttpRecordings};
use host_setup::http_exchange::encode;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tool_host::{CallKey, HttpOutcome, HttpRecorder, HttpRequestRecord};

/// Most exchanges that wait to be written, and most bytes of their bodies.
const MOST_WAITING: usize = 256;
const MOST_WAITING_BYTES: usize = 8 << 20;

/// Most exchanges that are written at once.
const MOST_AT_ONCE: usize = 32;

/// Takes exchanges from where they are made.
pub(crate) struct Recorder {
    queue: mpsc::Sender<Waiting>,
    counts: Arc<Counts>,
}

/// Writes what was taken.
pub(crate) struct Drain {
    queue: Mutex<mpsc::Receiver<Waiting>>,
    counts: Arc<Counts>,
    store: Arc<dyn HttpRecordings>,
}

/// Knows whether all that was recorded is written. Clones know the same.
#[derive(Clone)]
pub(crate) struct Unwritten(Arc<Counts>);

#[derive(Default)]
struct Counts {
    waiting_bytes: AtomicUsize,
    /// Exchanges that were taken and are neither written nor left away.
    unwritten: watch::Sender<usize>,
    /// Exchanges that were left away since the log last said so, and since the start.
    dropped: AtomicU64,
    dropped_in_all: AtomicU64,
}

struct Waiting {
    run_id: String,
    call_id: String,
    request: HttpRequestRecord,
    outcome: HttpOutcome,
}

/// A recorder, and what writes for it.
pub(crate) fn channel(store: Arc<dyn HttpRecordings>) -> (Recorder, Drain) {
    let (sender, receiver) = mpsc::channel(MOST_WAITING);
    let counts = Arc::<Counts>::default();
    (Recorder { queue: sender, counts: counts.clone() }, Drain { queue: Mutex::new(receiver), counts, store })
}

impl HttpRecorder for Recorder {
    fn record(&self, call: CallKey<'_>, request: HttpRequestRecord, outcome: HttpOutcome) {
        // Without a run nobody could ask for it.
        if call.run_id.is_empty() {
            return;
        }
        let waiting = Waiting { run_id: call.run_id.into(), call_id: call.call_id.into(), request, outcome };
        let bytes = waiting.bytes();
        self.counts.unwritten.send_modify(|exchanges| *exchanges += 1);
        let before = self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MOST_WAITING_BYTES || self.queue.try_send(waiting).is_err() {
            self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.settled(1);
            self.counts.dropped(1);
        }
    }
}

impl Drain {
    pub(crate) fn unwritten(&self) -> Unwritten {
        Unwritten(self.counts.clone())
    }

    /// Writes until it is told to end, and then what still waits.
    pub(crate) async fn run(&self, until: CancellationToken) {
        let mut queue = self.queue.lock().await;
        let mut batch = vec![];
        loop {
            tokio::select! {
                biased;
                received = queue.recv_many(&mut batch, MOST_AT_ONCE) => {
                    if received == 0 {
                        return;
                    }
                }
                () = until.cancelled() => return,
            }
            self.write(std::mem::take(&mut batch)).await;
        }
    }

    async fn write(&self, batch: Vec<Waiting>) {
        let bytes = batch.iter().map(Waiting::bytes).sum();
        let _settled = Settled { counts: &self.counts, exchanges: batch.len(), bytes };
        for run in batch.chunk_by(|one, next| one.run_id == next.run_id) {
            let Some(first) = run.first() else { continue };
            let recordings: Vec<_> = run.iter().map(Waiting::recording).collect();
            let kept = match self.store.append(&first.run_id, &recordings).await {
                Ok(kept) => kept,
                Err(error) => {
                    tracing::warn!(run_id = first.run_id, %error, "HTTP exchanges of tools were not recorded");
                    0
                }
            };
            let dropped = recordings.len().saturating_sub(kept);
            self.counts.dropped(u64::try_from(dropped).unwrap_or(u64::MAX));
        }
        let dropped = self.counts.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let in_all = self.counts.dropped_in_all.load(Ordering::Relaxed);
            tracing::warn!(
                dropped,
                in_all,
                "HTTP exchanges of tools were left away: too many waited, or a call or a run has as many as are kept"
            );
        }
    }
}

impl Unwritten {
    /// Resolves when every exchange that was recorded is written or left away: where the process is frozen
    /// behind an answer, the answer waits for it. Dropping it changes nothing.
    pub(crate) async fn written(&self) {
        let mut unwritten = self.0.unwritten.subscribe();
        // silent-ok: the sender is held here, so it cannot be gone.
        let _ = unwritten.wait_for(|exchanges| *exchanges == 0).await;
    }
}

/// A batch that is being written. It counts as settled, and its bytes make room, when this is dropped, also
/// by a panic.
struct Settled<'a> {
    counts: &'a Counts,
    exchanges: usize,
    bytes: usize,
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.counts.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.counts.settled(self.exchanges);
    }
}

impl Counts {
    fn settled(&self, settled: usize) {
        self.unwritten.send_modify(|exchanges| *exchanges = exchanges.saturating_sub(settled));
    }

    fn dropped(&self, exchanges: u64) {
        self.dropped.fetch_add(exchanges, Ordering::Relaxed);
        self.dropped_in_all.fetch_add(exchanges, Ordering::Relaxed);
    }
}

impl Waiting {
    /// About what it takes.
    fn bytes(&self) -> usize {
        let fields = |fields: &[(String, String)]| {
            fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        };
        let answered = match &self.outcome {
            HttpOutcome::Response { headers, body, .. } => fields(headers) + body.len(),
            HttpOutcome::Failed(code) => code.len(),
        };
        self.request.url.len() + fields(&self.request.headers) + self.request.body.len() + answered
    }

    fn recording(&self) -> HttpRecording {
        HttpRecording { call_id: self.call_id.clone(), exchange: encode(&self.request, &self.outcome) }
    }
}
