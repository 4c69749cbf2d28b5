//! A tool that can be called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, WaitTerms};
use agent_core::words::{Principal, ShownCall, ToolCall, ToolReturn, WaitKind};
use tool_policy::{Policy, Want};

use crate::component::Component;
use crate::component::definition::Definition;
use crate::rollout::{FirstCalls, ShadowCall, Side, TrialPart};
use crate::runtime::Runtime;
use crate::runtime::pure_answers::PureTool;

/// A tool and the component that has it.
pub(crate) struct Tool {
    pub(crate) component: Arc<Component>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) name: Arc<str>,
    /// What was in force when its set was made: a run is never allowed more.
    pub(crate) policy: Arc<Policy>,
    /// Part of the tool in a trial, if its component is in one.
    pub(crate) tried: Option<TrialPart>,
    /// Where its calls are counted, if its component has come to serve lately.
    pub(crate) first_calls: Option<Arc<FirstCalls>>,
    /// Absent unless its answers may be kept: it says so, and nothing that it could ask may answer otherwise
    /// next time.
    pub(crate) pure: Option<PureTool>,
}

impl Tool {
    /// A tool of a component under a policy. Neither in a trial nor counted.
    pub(crate) fn new(component: Arc<Component>, definition: Arc<Definition>, policy: Arc<Policy>) -> Self {
        let name: Arc<str> = definition.spec.name.as_str().into();
        let is_pure = definition.is_pure && component.computes_only;
        let pure = is_pure.then(|| PureTool::new(&component.digest, &name));
        Self { component, definition, name, policy, tried: None, first_calls: None, pure }
    }

    /// Whether its calls are made beside those of the version that serves, for comparison.
    pub(crate) fn is_shadow(&self) -> bool {
        self.tried.as_ref().is_some_and(|tried| tried.is_shadow)
    }

    /// Counts a call that was answered, if its component is in a trial or has come to serve lately, and has
    /// it made again by a shadow. A call that the policy denied, or whose secrets were not read in time, says
    /// nothing of the version: nothing ran. A kept answer of a pure tool is compared, and not counted: the
    /// version that serves has more of them than one that is new.
    pub(super) fn tell_trial(
        &self,
        runtime: &Runtime,
        request: &ToolRequest<'_>,
        answer: &ToolReturn,
        (start, had_grants): (Instant, bool),
    ) {
        let (user, outcome, now) =
            (request.principal.user_id.as_deref(), answer.receipt.outcome, Instant::now());
        let duration = now.saturating_duration_since(start);
        if !self.is_shadow() {
            runtime.recent_users.note(user, now);
        }
        if !had_grants {
            return;
        }
        let is_kept = answer.receipt.detail.as_deref().is_some_and(|detail| detail.cached);
        if let Some(first_calls) = self.first_calls.as_ref().filter(|_| !is_kept) {
            first_calls.observe(user, outcome, duration);
        }
        let Some(TrialPart { running, side, .. }) = &self.tried else { return };
        if !is_kept {
            running.observe(*side, user, outcome, duration);
        }
        // After a call that wrote values, the same call reads others.
        let keeps_values = self.component.wants.contains(&Want::KeyValue);
        // And what a server did once it does not do again for a comparison: both versions are the same
        // server.
        let has_effects = keeps_values || self.component.call_interface.is_mcp();
        let is_comparable = self.definition.is_read_only || !has_effects;
        if *side == Side::Old && is_comparable && running.shadows(request) {
            runtime.shadows.offer(ShadowCall::of(running.clone(), &self.policy, request, answer));
        }
    }

    /// What somebody has to approve before this call is made.
    pub(crate) fn approval(&self, runtime: &Runtime, call: &ToolCall) -> Option<WaitTerms> {
        let (current, identity) = (runtime.grants.current(), self.component.identity());
        if !self.policy.asks_about(&current, identity) {
            return None;
        }
        let hints = self.definition.spec.hints;
        let arguments = self.component.call_interface.for_rules(&self.name, &call.arguments);
        let (rule, policy) = self.policy.approval(&current, identity, (&hints, arguments.as_ref()))?;
        Some(WaitTerms {
            kind: WaitKind::Approval,
            answer: None,
            shown: ShownCall {
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
                component: format!("{}@{}", self.component.name, self.component.digest),
                policy,
                hints,
            },
            deciders: rule.deciders,
            within: Duration::from_secs(rule.within_s),
            on_expiry: rule.on_expiry,
        })
    }

    /// Counts a call whose guest ran when its caller went away, if its component is in a trial.
    pub(super) fn tell_trial_of_cancelled(&self, caller: &Principal, duration: Duration) {
        if let Some(TrialPart { running, side, .. }) = &self.tried {
            running.observe_cancelled(*side, caller.user_id.as_deref(), duration);
        }
    }
}
