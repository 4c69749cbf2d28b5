//! A version that is tried beside the one that serves, and what the calls of both came to on this replica.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::ToolRequest;
use agent_core::words::{ToolOutcome, Trial, TrialKind};
use tool_versions::verdicts::sample::{is_in, is_shadowed};
use tool_versions::verdicts::{count, count_cancelled, count_comparison};

use super::call_counter::{CallCounter, Side};
use crate::component::Component;

pub(crate) struct RunningTrial {
    /// Of which component.
    pub(crate) name: Arc<str>,
    pub(crate) trial: Trial,
    /// The version that is tried.
    pub(crate) component: Arc<Component>,
    pub(super) counter: CallCounter,
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
        let counter = CallCounter::new(trial.id.clone(), false);
        Self { name, trial, component, counter }
    }

    /// Whether a run gets the version that is tried.
    pub(crate) fn serves(&self, run_id: &str) -> bool {
        self.trial.kind == TrialKind::Canary && is_in(&self.trial.id, run_id, self.trial.share)
    }

    /// Whether a call is made by the version that is tried as well.
    pub(crate) fn shadows(&self, request: &ToolRequest<'_>) -> bool {
        self.trial.kind == TrialKind::Shadow
            && is_shadowed(&self.trial.id, request.run_id, request.call_id, self.trial.share)
    }

    /// Counts a call of a user.
    pub(crate) fn observe(&self, side: Side, user: Option<&str>, outcome: ToolOutcome, duration: Duration) {
        self.counter.count(side, user, |counts| count(counts, outcome, duration));
    }

    /// Counts a call that nobody waited for to the end.
    pub(crate) fn observe_cancelled(&self, side: Side, user: Option<&str>, duration: Duration) {
        self.counter.count(side, user, |counts| count_cancelled(counts, duration));
    }

    /// Counts an answer of a shadow, to a call of a user, that was compared.
    pub(crate) fn compared(&self, user: Option<&str>, agreed: bool) {
        self.counter.count(Side::New, user, |counts| count_comparison(counts, agreed));
    }
}
