//! The first calls of a version that has come to serve, tried or not: when they trap, the version before it
//! serves again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_core::words::{ComponentRecord, Millis, ToolOutcome};
use tool_versions::verdicts::rollback_on_traps::FIRST_CALLS;
use tool_versions::verdicts::{count, has_run};

use super::call_counter::{CallCounter, Side};

/// A version that serves while an earlier one is kept, until enough of its calls were counted.
pub(crate) struct FirstCalls {
    /// Of which component.
    pub(super) name: Arc<str>,
    pub(super) digest: String,
    /// Since when it serves.
    pub(super) since: Millis,
    pub(super) counter: CallCounter,
    /// How many calls more are counted on this replica.
    left: AtomicU64,
}

impl FirstCalls {
    /// Of the version that the record says serves; nothing where no earlier one is kept that could take its
    /// place.
    pub(crate) fn of(name: &str, record: &ComponentRecord) -> Option<Self> {
        let earlier = record.earlier().filter(|_| record.enabled)?;
        let is_kept = record.versions.iter().any(|version| version.digest == *earlier);
        let (id, digest) = (record.first_calls_id(name)?, record.active.clone().filter(|_| is_kept)?);
        // The sums of the time before this replica started are asked for first.
        let counter = CallCounter::new(id, true);
        let since = record.active_since?;
        Some(Self { name: name.into(), digest, since, counter, left: AtomicU64::new(FIRST_CALLS) })
    }

    /// Under this the replicas add up.
    pub(crate) fn id(&self) -> &str {
        &self.counter.id
    }

    /// True for that version of that component, while more of its calls are to be counted.
    pub(crate) fn counts(&self, name: &str, digest: &str) -> bool {
        *self.name == *name && self.digest == digest && self.goes_on()
    }

    /// Whether more of its calls are to be counted.
    pub(crate) fn goes_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts a call, if its end says that it ran. Kept answers do not get here.
    pub(crate) fn observe(&self, user: Option<&str>, outcome: ToolOutcome, duration: Duration) {
        let one_less = |left: u64| left.checked_sub(1);
        let is_one = || self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if has_run(outcome) && is_one() {
            self.counter.count(Side::New, user, |counts| count(counts, outcome, duration));
        }
    }

    /// Enough was counted on all replicas.
    pub(super) fn end(&self) {
        self.left.store(0, Ordering::Relaxed);
        self.counter.set_undecided(false);
    }
}
