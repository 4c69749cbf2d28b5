//! Tasks, results, jobs, waits and answers, with everything in them that a test does not care about.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::words::{
    AgentResult, Deciders, Exchange, FailureKind, Finish, Grants, Job, JobStatus, Message, ModelReply,
    OnExpiry, Options, Principal, ReceiptDetail, RunLimits, RunOutcome, RunRecord, ShownCall, StopReason,
    Task, ToolCall, ToolHints, ToolSpec, Usage, Wait, WaitKind,
};

/// The task of the run `run_1` of the user `u1`, who says this, without anything chosen.
pub fn task(input: &str) -> Task {
    Task {
        id: "run_1".into(),
        input: input.into(),
        instructions: None,
        options: Options::default(),
        limits: RunLimits::default(),
        model: "test/scripted".into(),
        principal: Principal::user("u1"),
        grants: Grants::default(),
        versions: Default::default(),
        parent: None,
    }
}

/// The record of a run of the user `u1`, long ago.
pub fn record(id: &str, outcome: RunOutcome) -> RunRecord {
    RunRecord {
        id: id.into(),
        request_id: "req-1".into(),
        user_id: Some("u1".into()),
        job_id: None,
        started_at: UNIX_EPOCH,
        finished_at: UNIX_EPOCH,
        outcome,
    }
}

/// The record of such a run of just now.
pub fn record_of_now(id: &str, outcome: RunOutcome) -> RunRecord {
    let now = SystemTime::now();
    RunRecord { started_at: now, finished_at: now, ..record(id, outcome) }
}

/// The outcome of a run that ended for this reason.
pub fn ended(stop_reason: StopReason) -> RunOutcome {
    RunOutcome::Ended { stop_reason, iterations: 1, usage: Usage::default(), model: "test/scripted".into() }
}

/// What becomes of a run that failed before its model had answered.
pub fn failed(error: &str) -> RunOutcome {
    let (error, usage) = (error.to_owned(), Usage::default());
    RunOutcome::Failed { error, iterations: 0, usage, kind: FailureKind::Internal }
}

/// A message of the user, as a conversation has it.
pub fn user(content: &str) -> Message {
    Message::User { content: content.into() }
}

/// A message of the model without calls, as a conversation has it.
pub fn reply(content: &str) -> Message {
    Message::Assistant { content: content.into(), tool_calls: vec![] }
}

/// A reply that is only text.
pub fn says(text: &str) -> ModelReply {
    ModelReply {
        content: text.into(),
        tool_calls: vec![],
        usage: Some(Usage::of(10, 5)),
        finish: Finish::Done,
        model: "test/scripted".into(),
    }
}

/// A reply that asks for tools: `(id, name, arguments)`.
pub fn asks_for(calls: &[(&str, &str, Value)]) -> ModelReply {
    let call = |(id, name, arguments): &(&str, &str, Value)| ToolCall {
        id: (*id).into(),
        name: (*name).into(),
        arguments: arguments.clone(),
    };
    ModelReply { tool_calls: calls.iter().map(call).collect(), ..says("") }
}

/// The answer of a tool, as a conversation has it.
pub fn answer(id: &str, name: &str, content: &str) -> Message {
    Message::Tool { tool_call_id: id.into(), name: name.into(), content: content.into() }
}

/// What the run `run_1` came to, which ended for this reason without words.
pub fn result(messages: Vec<Message>, stop_reason: StopReason) -> AgentResult {
    AgentResult {
        id: "run_1".into(),
        output: String::new(),
        output_value: None,
        output_error: None,
        stop_reason,
        messages,
        usage: Usage::of(10, 5),
        iterations: 1,
        model: "test/scripted".into(),
        tool_calls: vec![],
    }
}

/// A job of the user `u1`, whose run is `run_1`.
pub fn job(id: &str, status: JobStatus) -> Job {
    Job {
        id: id.into(),
        run_id: "run_1".into(),
        user_id: "u1".into(),
        parent: None,
        status,
        result: None,
        error: None,
        attempts_made: 0,
        created_at: UNIX_EPOCH,
        started_at: None,
        finished_at: None,
    }
}

/// Everything that can be said of a call, but for a run that it began.
pub fn receipt_detail() -> ReceiptDetail {
    ReceiptDetail {
        policy: Some("sha256:p".into()),
        arguments: Some("sha256:a".into()),
        code: Some("unavailable".into()),
        cause: Some("the server closed the connection".into()),
        child: None,
        waited_ms: Some(0.05),
        instantiate_ms: Some(0.2),
        run_ms: Some(12.345_678),
        peak_memory_bytes: Some(3 << 19),
        fuel: Some(1_000),
        exchanges: vec![Exchange {
            scheme: "https".into(),
            host: "example.org".into(),
            port: 443,
            address: Some("192.0.2.1".into()),
            requests: 2,
            failures: 1,
            sent_bytes: 300,
            received_bytes: 4_000,
        }],
        unlisted_requests: 3,
        refusals: vec!["the policy does not allow http://localhost".into()],
        unlisted_refusals: 4,
        secrets: vec!["search-key".into()],
        effects: true,
        redactions: 1,
        attempts: 2,
        cached: true,
        per_user: true,
    }
}

/// A tool that takes any arguments and may be called twice for one purpose.
pub fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        input_schema: json!({"type": "object"}),
        is_repeatable: true,
        ..ToolSpec::default()
    }
}

/// A payment with these arguments, as whoever decides about it is shown it.
pub fn shown(arguments: Value) -> ShownCall {
    ShownCall {
        tool: "pay".into(),
        arguments,
        component: "bank@sha256:1".into(),
        policy: "sha256:2".into(),
        hints: ToolHints::default(),
    }
}

/// A wait for a decision about the first call of a reply.
pub fn wait(id: &str, kind: WaitKind, shown: ShownCall) -> Wait {
    Wait {
        id: id.into(),
        index: 0,
        within: None,
        kind,
        shown,
        answer: None,
        deciders: Deciders::default(),
        began_at: 1,
        expires_at: 9,
        on_expiry: OnExpiry::Reject,
        usage: Usage::default(),
        child: None,
    }
}
