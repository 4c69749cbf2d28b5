//! A wait as the API and the command line show it.

use agent_core::words::{ChildRun, Decision, JobStatus, ParentCall, ShownCall, ToolHints, Verdict, Wait};
use run_service::waits::{Change, JobWait, LastApproved};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::timestamp::iso_8601_of_millis;

/// Something that a job waits for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Wait)]
pub(super) struct WaitBody {
    /// Names the wait within all jobs.
    #[schema(example = "1:37ddff8e-1.0")]
    wait_id: String,
    /// Where it is read, and with `/decision` behind it decided.
    #[schema(example = "/api/agent/waits/1:37ddff8e-1.0")]
    link: String,
    /// The job that goes on when it is decided.
    #[schema(example = "1")]
    job_id: String,
    /// The run that waits, as `/api/agent/runs` knows it.
    #[schema(example = "run_01a204ec6206715fbb305322b42db99d")]
    run_id: String,
    /// What it is: `approval`, whether the call may be made; `question`, an answer of the user; `timer`;
    /// `event`; `child`, the end of a run that this one began.
    #[schema(example = "approval")]
    kind: &'static str,
    /// Whose run it is; null when that is not known.
    #[schema(required = true, example = "ada")]
    user_id: Option<String>,
    /// The call that has come to this in its middle; absent where it is about a call of the model itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    within: Option<EnclosingBody>,
    /// The call that would be made.
    shown: ShownBody,
    /// The digest of what is shown, which a decision carries.
    #[schema(example = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")]
    digest: String,
    /// The JSON Schema that an answer has to meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, serde_json::Value>>, nullable = false, example = json!({ "type": "string" }))]
    answer_schema: Option<Value>,
    /// How many people have to approve.
    #[schema(example = 1)]
    approvals_needed: u32,
    /// When the run began to wait.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    began_at: String,
    /// When it is decided by itself.
    #[schema(format = DateTime, example = "2026-11-22T12:00:00.000Z")]
    expires_at: String,
    /// What is decided then: `reject`, `approve`, or `answer` of a timer.
    #[schema(example = "reject")]
    on_expiry: &'static str,
    /// Tokens that the run has cost so far.
    #[schema(example = 228)]
    tokens: u64,
    /// The run whose end is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    child: Option<ChildBody>,
    /// The call that the run answers, if another run began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    parent: Option<ParentBody>,
    /// The last approved call of the tool for the same user, where the wait is read by itself or listed to be
    /// decided, if the caller could have decided about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_approved: Option<LastApprovedBody>,
    /// What was decided so far.
    decisions: Vec<DecisionBody>,
}

/// A call of the same tool that was approved before.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastApproved)]
struct LastApprovedBody {
    /// When it was approved.
    #[schema(format = DateTime, example = "2026-11-20T12:00:00.000Z")]
    at: String,
    /// What is different now, at most a hundred differences.
    changes: Vec<ChangeBody>,
}

/// A part of the arguments that is different.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Change)]
struct ChangeBody {
    /// Where it is, as a JSON Pointer.
    #[schema(example = "/euros")]
    path: String,
    /// What was there; absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 5)]
    before: Option<Value>,
    /// What is there; absent when nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 60)]
    now: Option<Value>,
}

/// A run that another run began.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChildRun)]
struct ChildBody {
    /// The job that carries it out.
    #[schema(example = "019ab6f1c2007d1e8f0a1b2c3d4e5f60")]
    job_id: String,
    /// The run, as `/api/agent/runs` knows it.
    #[schema(example = "run_019ab6f1c2007d1e8f0a1b2c3d4e5f60")]
    run_id: String,
    /// Where its job stands; absent until it is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<agent_core::words::JobStatus>, nullable = false)]
    status: Option<&'static str>,
    /// The tools that it has.
    #[schema(example = json!(["calculate"]))]
    tools: Vec<String>,
    /// Most tokens that it may use, which count among those of the run that began it.
    #[schema(example = 2000)]
    tokens: u64,
}

/// The call of another run that a run answers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ParentCall)]
struct ParentBody {
    /// The job whose run waits for this one.
    #[schema(example = "1")]
    job_id: String,
    /// The run that waits.
    #[schema(example = "run_01a204ec6206715fbb305322b42db99d")]
    run_id: String,
    /// What it waits for: the end of this run.
    #[schema(example = "1:37ddff8e-1.0")]
    wait_id: String,
}

/// A call whose tool calls the one that waits, or asks.
#[derive(Serialize, ToSchema)]
#[schema(as = EnclosingCall)]
struct EnclosingBody {
    /// Name of the tool that was called.
    #[schema(example = "run_code")]
    tool: String,
    /// Which of its nested calls and questions waits, counted from 0.
    #[schema(example = 2)]
    number: u32,
}

/// A call as those who decide are shown it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ShownCall)]
struct ShownBody {
    /// Name of the tool that would be called.
    #[schema(example = "pay")]
    tool: String,
    /// Arguments of the call, as the model wrote them.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>, example = json!({ "to": "bob", "euros": 60 }))]
    arguments: Value,
    /// The component that would run.
    #[schema(example = "bank@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    component: String,
    /// Digest of the policy that it would run under.
    #[schema(example = "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752")]
    policy: String,
    /// What the tool says of itself: that it changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = false)]
    read_only: Option<bool>,
    /// What the tool says of itself: that it may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = true)]
    destructive: Option<bool>,
}

/// What somebody decided, or the expiry did.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Decision)]
struct DecisionBody {
    /// Who decided; null when the wait expired.
    #[schema(required = true, example = "ada")]
    by: Option<String>,
    /// At what time that was decided.
    #[schema(format = DateTime, example = "2026-11-21T12:05:00.000Z")]
    at: String,
    /// `approve`, `reject`, `edit` or `answer`; `ended` where nobody decides, because a child run has ended.
    #[schema(example = "approve")]
    decision: &'static str,
    /// Why the call was rejected, which the model is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "too dear")]
    reason: Option<String>,
    /// The arguments that the decider made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>, nullable = false, example = json!({ "to": "bob", "euros": 10 }))]
    arguments: Option<Value>,
    /// What was answered, any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!("the blue one"))]
    answer: Option<Value>,
}

/// A wait as the API shows it, for the command line.
pub fn wait_json(wait: &JobWait) -> Value {
    serde_json::to_value(WaitBody::from(wait)).unwrap_or_default()
}

impl From<&JobWait> for WaitBody {
    fn from(wait: &JobWait) -> Self {
        let Wait {
            kind, within, shown, answer, deciders, began_at, expires_at, on_expiry, usage, child, ..
        } = &wait.open.wait;
        let within = within.as_ref();
        Self {
            wait_id: wait.id.clone(),
            link: format!("/api/agent/waits/{}", wait.id),
            job_id: wait.job_id.clone(),
            run_id: wait.run_id.clone(),
            kind: kind.as_str(),
            user_id: wait.owner.user_id.clone(),
            digest: shown.digest(),
            within: within.map(|within| EnclosingBody { tool: within.tool.clone(), number: within.number }),
            shown: ShownBody::from(shown),
            answer_schema: answer.clone(),
            approvals_needed: deciders.count,
            began_at: iso_8601_of_millis(*began_at),
            expires_at: iso_8601_of_millis(*expires_at),
            on_expiry: on_expiry.as_str(),
            tokens: usage.total(),
            child: child.as_ref().map(|child| ChildBody::of(child, wait.child)),
            parent: wait.parent.as_ref().map(ParentBody::from),
            last_approved: wait.last_approved.as_ref().map(LastApprovedBody::from),
            decisions: wait.open.decisions.iter().map(DecisionBody::from).collect(),
        }
    }
}

impl ChildBody {
    fn of(child: &ChildRun, status: Option<JobStatus>) -> Self {
        let ChildRun { job_id, run_id, tools, tokens } = child.clone();
        Self { job_id, run_id, status: status.map(JobStatus::as_str), tools, tokens }
    }
}

impl From<&LastApproved> for LastApprovedBody {
    fn from(last: &LastApproved) -> Self {
        let change = |change: &Change| {
            let Change { path, before, now } = change.clone();
            ChangeBody { path, before, now }
        };
        Self { at: iso_8601_of_millis(last.at), changes: last.changes.iter().map(change).collect() }
    }
}

impl From<&ParentCall> for ParentBody {
    fn from(parent: &ParentCall) -> Self {
        let job_id = Wait::job_of(&parent.wait).unwrap_or_default().to_owned();
        Self { job_id, run_id: parent.run_id.clone(), wait_id: parent.wait.clone() }
    }
}

impl From<&ShownCall> for ShownBody {
    fn from(shown: &ShownCall) -> Self {
        let ShownCall { tool, arguments, component, policy, hints } = shown;
        let ToolHints { read_only, destructive, .. } = *hints;
        Self {
            tool: tool.clone(),
            arguments: arguments.clone(),
            component: component.clone(),
            policy: policy.clone(),
            read_only,
            destructive,
        }
    }
}

impl From<&Decision> for DecisionBody {
    fn from(decision: &Decision) -> Self {
        let (reason, arguments, answer) = match &decision.verdict {
            Verdict::Approve => (None, None, None),
            Verdict::Reject { reason } => (reason.clone(), None, None),
            Verdict::Edit { arguments } => (None, Some(arguments.clone()), None),
            Verdict::Answer { answer } => (None, None, Some(answer.clone())),
            Verdict::Ended { answer, .. } => (None, None, Some(Value::from(answer.as_str()))),
        };
        Self {
            by: decision.by.clone(),
            at: iso_8601_of_millis(decision.at),
            decision: decision.verdict.as_str(),
            reason,
            arguments,
            answer,
        }
    }
}
