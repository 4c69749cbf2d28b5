//! A run that waits, as a response shows it: what its client is to approve, and what it has come to so far.

use std::sync::Arc;

use agent_core::agent_loop::{OpenWait, Run};
use agent_core::ports::JournalError;
use agent_core::words::{Event, Principal, Wait, WaitKind};
use run_service::layers::RunAnswer;

use super::super::state::Shared;
use super::approvals::ApprovalId;
use super::waiting;

/// What a response shows of a run that waits.
pub(super) struct Paused {
    /// What the run has come to. Calls without an answer are told that they wait.
    pub(super) so_far: RunAnswer,
    /// What the client is to approve; at least one.
    pub(super) requests: Vec<ApprovalRequest>,
    /// What the run waits for besides, which is decided elsewhere, as a sentence.
    pub(super) beside: Option<String>,
}

/// A call that the client is to approve.
pub(super) struct ApprovalRequest {
    pub(super) id: ApprovalId,
    /// Which call of the last reply it is, counted from 0.
    pub(super) index: usize,
    pub(super) name: String,
    /// The arguments as JSON, as text.
    pub(super) arguments: String,
}

impl Paused {
    /// The run of these events, if it waits for something that `by` alone can approve.
    pub(super) fn of(events: Vec<Event>, by: &Principal) -> Option<Self> {
        let count = events.len();
        let run = Run::waiting(events).ok()?;
        let undecided = run.waits().filter(|open| open.decided().is_none());
        let (own, others): (Vec<_>, Vec<_>) = undecided.partition(|open| is_decided_by(open, &run, by));
        let requests: Vec<_> = own.into_iter().map(|open| ApprovalRequest::of(&open.wait, count)).collect();
        let others: Vec<_> = others.into_iter().map(|open| open.wait.clone()).collect();
        let beside = (!others.is_empty()).then(|| waiting::sentence(&others));
        if requests.is_empty() {
            return None;
        }
        let so_far = RunAnswer { result: Arc::new(run.so_far()?), cached: None, is_turn_lost: false };
        Some(Self { so_far, requests, beside })
    }
}

impl ApprovalRequest {
    fn of(wait: &Wait, events: usize) -> Self {
        let (name, arguments) = (wait.shown.tool.clone(), wait.shown.arguments.to_string());
        Self { id: ApprovalId::of(wait, events), index: wait.index, name, arguments }
    }
}

/// Whether the wait is an approval of a call that the response shows, and that of `by` completes it.
fn is_decided_by(open: &OpenWait, run: &Run, by: &Principal) -> bool {
    let has_decided = by.user_id.as_deref().is_some_and(|user| open.has_decided(user));
    let missing = (open.wait.deciders.count as usize).saturating_sub(open.decisions.len());
    open.wait.kind == WaitKind::Approval
        && open.wait.within.is_none()
        && open.wait.deciders.allow(by, run.principal())
        && !has_decided
        && missing <= 1
}

/// What the run of these events waits for that nobody has decided.
pub(super) fn undecided(events: &[Event]) -> Vec<Wait> {
    let run = Run::waiting(events.iter().cloned()).ok();
    let open = run.iter().flat_map(Run::waits).filter(|open| open.decided().is_none());
    open.map(|open| open.wait.clone()).collect()
}

/// The events of a run, up to so many of them.
pub(super) async fn events(
    edge: &Shared,
    run_id: &str,
    most: Option<usize>,
) -> Result<Vec<Event>, JournalError> {
    let mut events = edge.variant.runs.read(run_id, 0).await?;
    events.truncate(most.unwrap_or(usize::MAX));
    Ok(events)
}

/// The events of a run that waits, read again after somebody was told of it: of a run whose journal cannot
/// be read there are none, and it is said in a sentence that it waits.
pub(super) async fn events_if_any(edge: &Shared, run_id: &str, most: Option<usize>) -> Vec<Event> {
    let events = events(edge, run_id, most).await;
    events.unwrap_or_else(|error| {
        tracing::warn!(run_id, %error, "a response cannot show what its run waits for");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use agent_core::ports::{ToolSet as _, WaitingCall};
    use agent_core::testing::{EchoTools, asks_for, task};
    use agent_core::words::{Deciders, Decision, Principal, ToolCall, Usage, Verdict};
    use serde_json::json;

    use super::*;

    /// A wait for the approval of a payment.
    fn wait(index: usize, kind: WaitKind, deciders: Deciders) -> Wait {
        let tools = EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy");
        let call = ToolCall { id: "c".into(), name: "pay".into(), arguments: json!({}) };
        let terms = tools.approval(&call, Principal::nobody()).unwrap();
        let id = format!("1:1.{index}");
        let call = WaitingCall { id: &id, times_shown: 0, index, within: None, usage: Usage::of(10, 5) };
        Wait { kind, deciders, ..terms.wait(call, 1) }
    }

    fn paused(waits: Vec<Wait>, decided: Option<&str>) -> Option<Paused> {
        let ids: Vec<_> = (0..waits.len()).map(|index| format!("c{index}")).collect();
        let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "pay", json!({}))).collect();
        let first = waits[0].clone();
        let mut events = vec![
            Event::Started { task: task("hi"), tools: "sha256:tools".into() },
            Event::from(asks_for(&calls)),
            Event::Waiting { waits, epoch: 1 },
        ];
        events.extend(decided.map(|by| {
            let decision = Decision {
                by: Some(by.into()),
                at: 2,
                shown: first.shown.digest(),
                verdict: Verdict::Approve,
            };
            Event::Decided { wait: first.id, decision }
        }));
        Paused::of(events, &Principal::user("u1"))
    }

    #[test]
    fn the_client_is_asked_what_it_alone_can_approve() {
        let of = |count: u32, own: bool| Deciders { count, own, ..Deciders::default() };
        let approval = |deciders| wait(0, WaitKind::Approval, deciders);
        for (wait, decided, is_asked) in [
            (approval(of(1, true)), None, true),
            (approval(of(1, false)), None, false),
            (approval(of(2, true)), None, false),
            (approval(of(2, true)), Some("bob"), true),
            (approval(of(2, true)), Some("u1"), false),
            (wait(0, WaitKind::Question, of(1, true)), None, false),
            (wait(0, WaitKind::Timer, of(1, true)), None, false),
        ] {
            let found = paused(vec![wait.clone()], decided);
            assert_eq!(found.is_some(), is_asked, "{wait:?} {decided:?}");
        }
        // What others decide is said beside it.
        let both = vec![approval(of(1, true)), wait(1, WaitKind::Approval, of(2, true))];
        let both = paused(both, None).unwrap();
        assert_eq!((both.requests.len(), both.requests[0].id.events), (1, 3));
        assert!(both.beside.unwrap().contains("/api/agent/waits/1:1.1"));
        assert_eq!((both.so_far.result.messages.len(), both.so_far.result.tool_calls.len()), (4, 2));
    }
}
