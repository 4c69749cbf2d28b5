//! Spans that wait for their export, encoded and in batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Spans that wait for their export, and their bytes.
const SPANS: usize = 4096;
const BYTES: usize = 8 << 20;

/// Spans that are posted together, and how long the first of them waits for others (the batch processor of
/// OpenTelemetry's SDKs has 512 and 5 s). A batch is full at that many bytes as well.
pub(super) const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// What became of the spans that were recorded.
#[derive(Debug, Default)]
pub struct SpanCounts {
    pub(super) exported: AtomicU64,
    dropped: AtomicU64,
    pub(super) failed: AtomicU64,
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

/// The queue. Threads that serve put spans in; one task takes them out.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Told when a batch begins and when it is full.
    changed: Notify,
    counts: Arc<SpanCounts>,
}

#[derive(Debug, Default)]
struct Waiting {
    full: VecDeque<Batch>,
    /// Filled until it is full.
    open: Batch,
    spans: usize,
    bytes: usize,
    /// When the first span of the open batch ended.
    begun: Option<Instant>,
}

/// Spans that are posted together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    spans: usize,
    encoded: Vec<u8>,
}

impl Batch {
    /// How many spans there are in it.
    pub(super) fn spans(&self) -> usize {
        self.spans
    }

    /// The encoded spans, one behind the other.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    fn is_full(&self) -> bool {
        self.spans >= BATCH || self.encoded.len() >= BATCH_BYTES
    }
}

impl Queue {
    /// An empty queue that counts what it drops.
    pub(super) fn new(counts: Arc<SpanCounts>) -> Self {
        Self { waiting: Mutex::default(), changed: Notify::new(), counts }
    }

    /// Puts an encoded span in, or counts it as dropped.
    pub(crate) fn put(&self, span: &[u8]) {
        let mut waiting = self.waiting.lock();
        let Waiting { full, open, spans, bytes, begun } = &mut *waiting;
        if *spans >= SPANS || *bytes >= BYTES {
            drop(waiting);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        open.encoded.extend_from_slice(span);
        open.spans += 1;
        *spans += 1;
        *bytes += span.len();
        let (is_first, is_full) = (open.spans == 1, open.is_full());
        if is_full {
            let like_it = Batch { spans: 0, encoded: Vec::with_capacity(open.encoded.len()) };
            full.push_back(std::mem::replace(open, like_it));
            *begun = None;
        } else if is_first {
            *begun = Some(Instant::now());
        }
        drop(waiting);
        if is_first || is_full {
            self.changed.notify_one();
        }
    }

    /// Waits for a batch that is full, or whose first span has waited long enough.
    pub(super) async fn due(&self) {
        loop {
            let begun = {
                let waiting = self.waiting.lock();
                if !waiting.full.is_empty() {
                    return;
                }
                waiting.begun
            };
            match begun.map(|begun| begun + LINGER) {
                Some(due) if due <= Instant::now() => return,
                Some(due) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = sleep_until(due) => return,
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// The oldest batch, full or not, empty when nothing waits.
    pub(super) fn take(&self) -> Batch {
        let mut waiting = self.waiting.lock();
        let batch = match waiting.full.pop_front() {
            Some(batch) => batch,
            None => {
                waiting.begun = None;
                std::mem::take(&mut waiting.open)
            }
        };
        waiting.spans -= batch.spans;
        waiting.bytes -= batch.encoded.len();
        batch
    }

    /// How many spans wait in all batches.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().spans
    }
}
