//! What was removed because it had ended long ago.

use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::ports::{Observer, RetainedKind};
use prometheus::{GaugeVec, IntCounterVec, Opts};

use super::described::Register;

/// Counts what sweeps remove.
#[derive(Debug)]
pub struct RetentionMetrics {
    removed: IntCounterVec,
    failed: IntCounterVec,
    last: GaugeVec,
    oldest: GaugeVec,
}

impl RetentionMetrics {
    pub(super) fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let counters = |name, help| registry.keep(IntCounterVec::new(Opts::new(name, help), &["what"]));
        let oldest = Opts::new(
            "agent_retention_oldest_timestamp_seconds",
            "When the oldest of what has ended and is kept ended (seconds since 1970); 0 when nothing is kept",
        );
        let last = Opts::new(
            "agent_retention_last_sweep_timestamp_seconds",
            "When a sweep of this process last came to its end, before the first one when the process began to look whether \
             one is due (seconds since 1970)",
        );
        let this = Self {
            removed: counters(
                "agent_retention_removed_total",
                "Things that this process removed because they had ended longer ago than they are kept",
            )?,
            failed: counters(
                "agent_retention_failed_sweeps_total",
                "Sweeps of this process that a store failed",
            )?,
            last: registry.keep(GaugeVec::new(last, &["what"]))?,
            oldest: registry.keep(GaugeVec::new(oldest, &["what"]))?,
        };
        // A series that begins at zero shows its first increase.
        for kind in RetainedKind::ALL {
            this.removed.with_label_values(&[kind.as_str()]);
            this.failed.with_label_values(&[kind.as_str()]);
        }
        Ok(this)
    }
}

impl Observer for RetentionMetrics {
    fn swept(&self, kind: RetainedKind, removed: u64) {
        self.removed.with_label_values(&[kind.as_str()]).inc_by(removed);
    }

    fn nothing_overdue(&self, kind: RetainedKind) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last.with_label_values(&[kind.as_str()]).set(now.as_secs_f64());
    }

    fn sweep_failed(&self, kind: RetainedKind) {
        self.failed.with_label_values(&[kind.as_str()]).inc();
    }

    fn oldest_retained(&self, kind: RetainedKind, ended_at: Option<SystemTime>) {
        let since = ended_at.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        self.oldest.with_label_values(&[kind.as_str()]).set(since.as_secs_f64());
    }
}
