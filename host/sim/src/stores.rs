//! Reference stores: what a port promises, in memory and without any fault. Each passes the contract suite
//! that the real stores pass (`backends/tests/it/memory.rs`), so that what is found here would be found
//! there. The queue, journals, records, conversations and webhooks are those of `agent_core::testing`,
//! idempotency keys those of `backends::memory`.
//!
//! Here is a Redis with `appendfsync everysec`, in which the queue and the idempotency keys are: what it
//! acknowledged within its last second is forgotten when it is restarted, of both to the same moment. What
//! each store promises in which deployment stands in `host/docs/evidence/simulation.md`.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_core::testing::{HeldJobs, TestQueue};
use backends::memory::MemoryIdempotency;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How often what was written is flushed to the disk.
const FLUSHED_EVERY: Duration = Duration::from_secs(1);

/// The keys of a deployment, as they are now.
pub type ReferenceKeys = Mutex<Arc<MemoryIdempotency>>;

/// A server that keeps its jobs and keys every second.
pub struct Redis {
    queue: Arc<TestQueue>,
    keys: Arc<ReferenceKeys>,
    flushed: Mutex<Option<Flushed>>,
}

/// What the disk has of queue and keys.
#[derive(Debug)]
struct Flushed {
    at: Instant,
    jobs: HeldJobs,
    keys: MemoryIdempotency,
}

impl Redis {
    /// The server of that queue and of those keys, of which nothing is written yet.
    pub fn of(queue: &Arc<TestQueue>, keys: &Arc<ReferenceKeys>) -> Arc<Self> {
        let redis = Arc::new(Self { queue: queue.clone(), keys: keys.clone(), flushed: Mutex::default() });
        let server: Weak<Self> = Arc::downgrade(&redis);
        queue.before_writes(move |_queue| server.upgrade().iter().for_each(|server| server.before_write()));
        redis
    }

    /// Flushes what was written before, if that was not done within the last second.
    pub fn before_write(&self) {
        let mut flushed = self.flushed.lock();
        if flushed.as_ref().is_none_or(|flushed| flushed.at.elapsed() >= FLUSHED_EVERY) {
            let (jobs, keys) = (self.queue.held_now(), MemoryIdempotency::clone(&self.keys.lock()));
            *flushed = Some(Flushed { at: Instant::now(), jobs, keys });
        }
    }

    /// The server is restarted over its disk. Says of which jobs something was forgotten.
    pub fn restart(&self) -> BTreeSet<String> {
        let flushed = self.flushed.lock().take().filter(|flushed| flushed.at.elapsed() < FLUSHED_EVERY);
        let Some(Flushed { jobs, keys, .. }) = flushed else { return BTreeSet::new() };
        *self.keys.lock() = Arc::new(keys);
        self.queue.go_back(jobs)
    }
}
