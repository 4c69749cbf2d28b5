//! Takes the spans of the process: gives them ids, decides which are recorded, and encodes those that ended
//! into the queue of the exporter, in the thread that they ended in. There what they hold is in the
//! processor's cache and is freed by the thread that allocated it; the exporter's thread gets bytes.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::trace::{Parent, Record, Recorder, TraceContext};

use super::export::Queue;
use super::otlp;
use crate::config::Sampling;

/// More than most encoded spans take; a thread keeps so much memory for the next one.
const USUAL_BYTES: usize = 4 << 10;

/// Records spans into a queue.
pub(super) struct SpanRecorder {
    sampling: Sampling,
    queue: Arc<Queue>,
}

impl SpanRecorder {
    /// Records the share of traces that `sampling` says.
    pub(super) fn new(sampling: Sampling, queue: Arc<Queue>) -> Self {
        Self { sampling, queue }
    }

    fn is_sampled(&self, trace_id: u128, parent: Option<&Parent>) -> bool {
        match parent {
            Some(parent) if !parent.is_remote || self.sampling.follows_parent => parent.context.sampled,
            _ => is_in_share(trace_id, self.sampling.ratio),
        }
    }
}

impl Recorder for SpanRecorder {
    fn context(&self, parent: Option<&Parent>) -> TraceContext {
        let new = || (u128::from(random()) << 64) | u128::from(random());
        let trace_id = parent.map_or_else(new, |parent| parent.context.trace_id);
        TraceContext { trace_id, span_id: random(), sampled: self.is_sampled(trace_id, parent) }
    }

    fn now(&self) -> u64 {
        now()
    }

    fn end(&self, record: Record) {
        // Copied from there, because others wait for the queue while something is put in.
        thread_local! {
            static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        ENCODED.with_borrow_mut(|encoded| {
            encoded.clear();
            otlp::span(encoded, &record, now());
            self.queue.put(encoded);
            encoded.shrink_to(USUAL_BYTES);
        });
    }
}

/// Decided by the bits of the id that OpenTelemetry's SDKs decide by, so that every service decides alike.
fn is_in_share(trace_id: u128, share: f64) -> bool {
    share >= 1.0 || (trace_id as u64) >> 1 < (share * (1_u64 << 63) as f64) as u64
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A random number that is not 0, which no id is: what a keyed hash makes of the next number of this thread.
/// The operating system makes the keys, and is not asked again.
fn random() -> u64 {
    thread_local! {
        static NUMBERS: (RandomState, Cell<u64>) = (RandomState::new(), Cell::new(0));
    }
    NUMBERS.with(|(keys, next)| {
        let number = next.get();
        next.set(number.wrapping_add(1));
        keys.hash_one(number).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_what_other_services_take_for_it() {
        for (trace_id, share, expected) in [
            (0, 0.0, false),
            (u128::MAX, 1.0, true),
            (u128::MAX, 0.999, false),
            // Of an id, the last 8 bytes decide.
            (u128::MAX << 64, 0.001, true),
            (0x7fff_ffff_ffff_ffff, 0.5, true),
            (0x8000_0000_0000_0000, 0.5, false),
        ] {
            assert_eq!(is_in_share(trace_id, share), expected, "{trace_id:x} {share}");
        }
        let sampled = (0..10_000).filter(|_| is_in_share(u128::from(random()), 0.25)).count();
        assert!((2_200..2_800).contains(&sampled), "{sampled}");
    }
}
