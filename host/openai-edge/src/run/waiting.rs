//! A run that waits for somebody, where the protocol has no word for it or the client cannot decide: it ends
//! in a sentence that says what it waits for and where that is decided.

use std::sync::Arc;

use agent_core::words::{AgentResult, Event, Finish, Message, ModelReply, StopReason, Usage, Wait, WaitKind};
use run_service::layers::{InvokeError, InvokeResult, RunAnswer};
use run_service::waits::NotDecided;

use super::super::models;
use http_edge::variant_b::error::Error;
use http_edge::variant_b::state::Shared;

/// What a client is told of a run that was handed over to a job, in place of its result.
pub(crate) async fn or_said(edge: &Shared, run_id: &str, outcome: InvokeResult) -> Result<RunAnswer, Error> {
    let job_id = match outcome {
        Err(InvokeError::Waits { job_id }) => job_id,
        ended => return Ok(ended?),
    };
    let waits = edge.variant.waits.of(&job_id).await.map_err(NotDecided::from)?;
    Ok(said(run_id, &AllWaits::of_run(waits.into_iter().map(|wait| wait.open.wait))))
}

/// What a run waits for, and the runs that it began.
#[derive(Debug, Default)]
pub(crate) struct AllWaits {
    own: Vec<Wait>,
    of_children: Vec<Wait>,
}

impl AllWaits {
    pub(crate) fn of_run(own: impl IntoIterator<Item = Wait>) -> Self {
        Self { own: own.into_iter().collect(), of_children: Vec::new() }
    }

    pub(crate) fn and_children(self, of_children: impl IntoIterator<Item = Wait>) -> Self {
        Self { of_children: of_children.into_iter().collect(), ..self }
    }

    /// The job that goes on with the run.
    pub(crate) fn job_id(&self) -> Option<&str> {
        self.own.first().and_then(|wait| Wait::job_of(&wait.id))
    }

    /// Waits that are to be told of: what children wait for stands for that they are waited for.
    fn told(&self) -> impl Iterator<Item = &Wait> {
        let are_told = !self.of_children.is_empty();
        self.own.iter().filter(move |wait| !(are_told && wait.kind.is_child())).chain(&self.of_children)
    }
}

/// The sentence as a result, with what the run has cost so far.
pub(crate) fn said(run_id: &str, waits: &AllWaits) -> RunAnswer {
    ending(run_id, sentence(waits), waits.own.first().map(|wait| wait.usage).unwrap_or_default())
}

/// A sentence as the end of a run that goes on elsewhere.
pub(crate) fn ending(run_id: &str, output: String, usage: Usage) -> RunAnswer {
    let result = AgentResult {
        id: run_id.to_owned(),
        messages: vec![Message::Assistant { content: output.clone(), tool_calls: Vec::new() }],
        output,
        output_value: None,
        output_error: None,
        stop_reason: StopReason::Completed,
        usage,
        iterations: 1,
        model: models::AGENT.to_owned(),
        tool_calls: Vec::new(),
    };
    RunAnswer { result: Arc::new(result), cached: None, is_turn_lost: false }
}

/// The sentence as the last reply of a stream.
pub(crate) fn reply(answer: &RunAnswer) -> Event {
    Event::from(ModelReply {
        content: answer.result.output.clone(),
        tool_calls: Vec::new(),
        usage: None,
        finish: Finish::Done,
        model: answer.result.model.clone(),
    })
}

/// What a run waits for, and where that is decided.
pub(crate) fn sentence(waits: &AllWaits) -> String {
    let Some(job_id) = waits.job_id() else { return "This waits for a decision.".to_owned() };
    sentence_of(job_id, waits.told())
}

/// Says that the run of this job waits for these.
pub(crate) fn sentence_of<'a>(job_id: &str, waits: impl Iterator<Item = &'a Wait>) -> String {
    let what: Vec<_> = waits.map(|wait| format!("{} (/api/agent/waits/{})", what(wait), wait.id)).collect();
    format!("This waits for {}. Its result will be at /api/agent/jobs/{job_id}.", what.join(" and "))
}

fn what(wait: &Wait) -> String {
    let Wait { kind, shown, .. } = wait;
    let said = |name: &str| shown.arguments[name].as_str().unwrap_or_default();
    match kind {
        WaitKind::Approval => format!("an approval before it calls {}", shown.tool),
        WaitKind::Question => format!("your answer to a question: {}", said("question")),
        WaitKind::Timer => format!("a time, {}", said("time")),
        WaitKind::Event => format!("the event {}", said("name")),
        WaitKind::Child => format!("the end of a run that it began: {}", said("task")),
    }
}
