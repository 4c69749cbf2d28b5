//! A run that waits, as a response shows it: what its client is to approve, and what it has come to so far.
//!
//! What the runs that it began wait for is asked of its client as well, and so is what a call has come to in
//! its middle.

use std::sync::Arc;

use agent_core::agent_loop::Run;
use agent_core::ports::JournalResult;
use agent_core::words::{Event, Job, Principal, Wait};
use run_service::layers::RunAnswer;
use run_service::waits::JobWait;
use serde_json::Value;

use super::super::input::approvals::ApprovalId;
use super::waiting::{self, AllWaits};
use http_edge::variant_b::state::Shared;

/// What a response shows of a run that waits.
pub(crate) struct Paused {
    /// What the run has come to. Calls without an answer are told that they wait.
    pub(crate) so_far: RunAnswer,
    /// What the client is to approve; at least one.
    pub(crate) requests: Vec<ApprovalRequest>,
    /// What the run waits for besides, which is decided elsewhere, as a sentence.
    pub(crate) beside: Option<String>,
}

/// A call that the client is to approve.
pub(crate) struct ApprovalRequest {
    pub(crate) id: ApprovalId,
    /// Which call of the last reply it is, counted from 0; `None` for one that another call or a child run
    /// has come to, which the client has not been shown.
    pub(crate) index: Option<usize>,
    pub(crate) name: String,
    /// The arguments, a JSON object.
    pub(crate) arguments: Value,
}

/// A run that waits, with all that it waits for.
pub(crate) struct WaitingRun {
    /// The job that goes on with it.
    pub(crate) job: Job,
    /// Events of the run, as far as the client has been shown them.
    pub(crate) events: Vec<Event>,
    /// What it waits for that is not decided, and behind that what the runs wait for that it began.
    pub(crate) waits: Vec<JobWait>,
}

impl WaitingRun {
    /// The run of that job, of which the client has been shown so many events, or all. What cannot be read is
    /// left out: then it is said in a sentence that the run waits.
    pub(crate) async fn read(edge: &Shared, job: Job, most: Option<usize>) -> Self {
        let run_id = &job.run_id;
        let events = match events(edge, run_id, most).await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(run_id, %error, "a response cannot show what its run waits for");
                Vec::new()
            }
        };
        let waits = match edge.variant.waits.of_family(&job).await {
            Ok(family) => family.waits,
            Err(error) => {
                tracing::warn!(run_id, %error, "a response cannot show what the children of its run wait for");
                Vec::new()
            }
        };
        Self { job, events, waits }
    }

    fn is_own(&self, wait: &JobWait) -> bool {
        wait.job_id == self.job.id
    }

    /// All that is waited for.
    pub(crate) fn all(&self) -> AllWaits {
        let of = |is_own: bool| {
            let waits = self.waits.iter().filter(move |wait| self.is_own(wait) == is_own);
            waits.map(|wait| wait.open.wait.clone())
        };
        AllWaits::of_run(of(true)).and_children(of(false))
    }

    /// What a response shows of it, if `by` alone can approve any of it.
    pub(crate) fn paused(&self, by: &Principal) -> Option<Paused> {
        let shown = self.events.len();
        let (own, others): (Vec<_>, Vec<_>) = self.waits.iter().partition(|wait| wait.is_approved_by(by));
        if own.is_empty() {
            return None;
        }
        let request = |wait: &&JobWait| ApprovalRequest::of(&wait.open.wait, self.is_own(wait), shown);
        // A wait for a child says nothing where it is said what that waits for.
        let are_own = self.waits.iter().all(|wait| self.is_own(wait));
        let others = others.into_iter().map(|wait| &wait.open.wait);
        let mut others = others.filter(|wait| are_own || !wait.kind.is_child()).peekable();
        let beside = others.peek().is_some().then(|| waiting::sentence_of(&self.job.id, others));
        let so_far = Run::waiting(self.events.iter().cloned()).ok()?.so_far()?;
        let so_far = RunAnswer { result: Arc::new(so_far), cached: None, is_turn_lost: false };
        Some(Paused { so_far, requests: own.iter().map(request).collect(), beside })
    }
}

impl ApprovalRequest {
    fn of(wait: &Wait, is_own: bool, events: usize) -> Self {
        let (name, arguments) = (wait.shown.tool.clone(), wait.shown.arguments.clone());
        let index = (is_own && wait.within.is_none()).then_some(wait.index);
        Self { id: ApprovalId::of(wait, events), index, name, arguments }
    }
}

/// The events of a run, up to so many of them.
pub(crate) async fn events(edge: &Shared, run_id: &str, most: Option<usize>) -> JournalResult<Vec<Event>> {
    let mut events = edge.variant.runs.read(run_id, 0).await?;
    events.truncate(most.unwrap_or(usize::MAX));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use agent_core::agent_loop::OpenWait;
    use agent_core::ports::{ToolSet as _, WaitingCall};
    use agent_core::testing::{EchoTools, asks_for, job, task};
    use agent_core::words::{
        Deciders, Decision, EnclosingCall, JobStatus, Principal, Task, ToolCall, Usage, Verdict, WaitKind,
    };
    use serde_json::json;

    use super::*;

    /// A wait for the approval of a payment.
    fn wait(job_id: &str, index: usize, kind: WaitKind, deciders: Deciders) -> Wait {
        let tools = EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy");
        let call = ToolCall { id: "c".into(), name: "pay".into(), arguments: json!({}) };
        let terms = tools.approval(&call, Principal::nobody()).unwrap();
        let id = format!("{job_id}:1.{index}");
        let call = WaitingCall { id: &id, times_shown: 0, index, within: None, usage: Usage::of(10, 5) };
        Wait { kind, deciders, ..terms.wait(call, 1) }
    }

    /// The run of job 1, whose calls wait for these, and what its children wait for.
    fn waiting_run(own: Vec<Wait>, decided: Option<&str>, of_children: Vec<Wait>) -> WaitingRun {
        let ids: Vec<_> = (0..own.len()).map(|index| format!("c{index}")).collect();
        let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "pay", json!({}))).collect();
        let first = own[0].clone();
        let task = Task { principal: Principal::user("u1"), ..task("hi") };
        let mut events = vec![
            Event::Started { task, tools: "sha256:tools".into() },
            Event::from(asks_for(&calls)),
            Event::Waiting { waits: own, epoch: 1 },
        ];
        events.extend(decided.map(|by| {
            let decision = Decision {
                by: Some(by.into()),
                at: 2,
                shown: first.shown.digest(),
                verdict: Verdict::Approve,
                nonce: String::new(),
            };
            Event::Decided { wait: first.id, decision }
        }));
        let run = Run::waiting(events.iter().cloned()).unwrap();
        let of_job = |id: &str, open: &OpenWait| JobWait {
            id: open.wait.id.clone(),
            job_id: id.into(),
            run_id: "run_1".into(),
            owner: Principal::user("u1"),
            open: open.clone(),
            child: None,
            last_approved: None,
            parent: None,
        };
        let mut waits: Vec<_> = run.waits().map(|open| of_job("1", open)).collect();
        waits.extend(of_children.into_iter().map(|wait| of_job("2", &OpenWait { wait, decisions: vec![] })));
        WaitingRun { job: job("1", JobStatus::Parked), events, waits }
    }

    fn paused(own: Vec<Wait>, decided: Option<&str>, of_children: Vec<Wait>) -> Option<Paused> {
        waiting_run(own, decided, of_children).paused(&Principal::user("u1"))
    }

    fn of(count: u32, own: bool) -> Deciders {
        Deciders { count, own, ..Deciders::default() }
    }

    #[test]
    fn the_client_is_asked_what_it_alone_can_approve() {
        let approval = |deciders| wait("1", 0, WaitKind::Approval, deciders);
        for (wait, decided, is_asked) in [
            (approval(of(1, true)), None, true),
            (approval(of(1, false)), None, false),
            (approval(of(2, true)), None, false),
            (approval(of(2, true)), Some("bob"), true),
            (approval(of(2, true)), Some("u1"), false),
            (wait("1", 0, WaitKind::Question, of(1, true)), None, false),
            (wait("1", 0, WaitKind::Timer, of(1, true)), None, false),
        ] {
            let found = paused(vec![wait.clone()], decided, vec![]);
            assert_eq!(found.is_some(), is_asked, "{wait:?} {decided:?}");
        }
        // What others decide is said beside it.
        let both = vec![approval(of(1, true)), wait("1", 1, WaitKind::Approval, of(2, true))];
        let both = paused(both, None, vec![]).unwrap();
        assert_eq!((both.requests.len(), both.requests[0].id.events), (1, 3));
        assert!(both.beside.unwrap().contains("/api/agent/waits/1:1.1"));
        assert_eq!((both.so_far.result.messages.len(), both.so_far.result.tool_calls.len()), (4, 2));
    }

    #[test]
    fn what_children_and_calls_in_their_middle_wait_for_is_asked_as_well() {
        let within = Some(EnclosingCall { tool: "run_code".into(), number: 1 });
        let nested = Wait { within, ..wait("1", 0, WaitKind::Approval, of(1, true)) };
        let paused_in_middle = paused(vec![nested], None, vec![]).unwrap();
        assert_eq!((paused_in_middle.requests.len(), paused_in_middle.requests[0].index), (1, None));

        let parent = || vec![wait("1", 0, WaitKind::Child, of(1, true))];
        let approval = wait("2", 0, WaitKind::Approval, of(1, true));
        let question = wait("2", 1, WaitKind::Question, of(1, true));
        let asked = paused(parent(), None, vec![approval.clone()]).unwrap();
        let [request] = &asked.requests[..] else { panic!() };
        assert_eq!((request.index, request.id.wait.as_str(), request.id.events), (None, "2:1.0", 3));
        assert_eq!(asked.beside, None, "that the child is waited for is said by what it waits for");
        let beside = paused(parent(), None, vec![approval, question.clone()]).unwrap().beside.unwrap();
        assert!(beside.contains("/waits/2:1.1") && !beside.contains("/waits/1:1.0"), "{beside}");
        assert!(beside.ends_with("Its result will be at /api/agent/jobs/1."), "{beside}");
        // Nothing of it can be approved: the sentence says what the child waits for.
        let run = waiting_run(parent(), None, vec![question]);
        assert!(run.paused(&Principal::user("u1")).is_none());
        let said = waiting::sentence(&run.all());
        assert!(said.contains("/waits/2:1.1") && said.ends_with("/api/agent/jobs/1."), "{said}");
    }
}
