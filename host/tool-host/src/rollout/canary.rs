//! A version that is tried beside the one that serves, and what the calls of both came to on this replica.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::ports::ToolRequest;
use agent_core::words::{CallCounts, ToolOutcome, Trial, TrialCounts, TrialKind};

use crate::component::Component;
use crate::versions::canary_verdict::sample::{is_in, is_shadowed};
use crate::versions::canary_verdict::{count, count_comparison};

/// A trial that goes on.
pub(crate) struct RunningTrial {
    /// Of which component.
    pub(crate) name: Arc<str>,
    pub(crate) trial: Trial,
    /// The version that is tried.
    pub(crate) component: Arc<Component>,
    /// What was counted since it was added to the store. Held for a few instructions.
    counts: Mutex<TrialCounts>,
    /// Whether it is to end and that could not be written down.
    is_undecided: AtomicBool,
}

/// Which of the two versions a call was of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that serves.
    Old,
    /// The one that is tried.
    New,
}

/// The part that a tool has in a trial.
#[derive(Clone)]
pub(crate) struct TrialPart {
    pub(crate) running: Arc<RunningTrial>,
    pub(crate) side: Side,
    /// Whether its calls are a shadow's: then they change nothing.
    pub(crate) is_shadow: bool,
}

impl RunningTrial {
    pub(crate) fn new(name: Arc<str>, trial: Trial, component: Arc<Component>) -> Self {
        Self { name, trial, component, counts: Mutex::default(), is_undecided: AtomicBool::new(false) }
    }

    /// Whether a run gets the version that is tried.
    pub(crate) fn serves(&self, run_id: &str) -> bool {
        self.trial.kind == TrialKind::Canary && is_in(&self.trial.id, run_id, self.trial.share)
    }

    /// Whether a call is made by the version that is tried as well.
    pub(crate) fn shadows(&self, request: &ToolRequest<'_>) -> bool {
        let call = (request.run_id, request.call_id);
        self.trial.kind == TrialKind::Shadow && is_shadowed(&self.trial.id, call, self.trial.share)
    }

    /// Counts a call.
    pub(crate) fn observe(&self, side: Side, outcome: ToolOutcome, duration: Duration) {
        let mut counts = self.counts();
        match side {
            Side::Old => count(&mut counts.old, outcome, duration),
            Side::New => count(&mut counts.new, outcome, duration),
        }
    }

    /// Counts an answer of a shadow that was compared.
    pub(crate) fn compared(&self, agreed: bool) {
        count_comparison(&mut self.counts().new, agreed);
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided.load(Ordering::Relaxed)
    }

    pub(super) fn set_undecided(&self, is_undecided: bool) {
        self.is_undecided.store(is_undecided, Ordering::Relaxed);
    }

    /// What was counted since it was last taken.
    pub(super) fn take(&self) -> TrialCounts {
        std::mem::take(&mut self.counts())
    }

    /// What was taken could not be added.
    pub(super) fn put_back(&self, taken: &TrialCounts) {
        let mut counts = self.counts();
        add(&mut counts.old, &taken.old);
        add(&mut counts.new, &taken.new);
    }

    fn counts(&self) -> MutexGuard<'_, TrialCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(counts: &mut CallCounts, more: &CallCounts) {
    counts.calls += more.calls;
    counts.failed += more.failed;
    counts.trapped += more.trapped;
    counts.compared += more.compared;
    counts.agreed += more.agreed;
    if counts.durations.len() < more.durations.len() {
        counts.durations.resize(more.durations.len(), 0);
    }
    counts.durations.iter_mut().zip(&more.durations).for_each(|(own, more)| *own += more);
}
