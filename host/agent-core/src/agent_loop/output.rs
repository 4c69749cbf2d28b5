//! The output that a caller wants as JSON: which reply has to be it, what the model is told of one that is
//! not, and the value of one that is.

use json_schema::MemoryBudget;
use serde_json::Value;

use super::{ModelCall, Run};
use crate::words::{Finish, Limit, Message, ModelReply, OutputFormat, ReplyRules, StopReason};

/// How often the model is told what is wrong with its output. Each time is a model call.
const MOST_CORRECTIONS: u32 = 2;

impl Run {
    /// What its replies have to keep to.
    pub fn rules(&self) -> &ReplyRules {
        &self.task.options.rules
    }

    /// Whether the next reply still has to call a tool that [`ReplyRules::first_call`] leaves to the model.
    /// Callers that offer functions mean one of those, and the run ends when one is called.
    pub fn requires_call(&self) -> bool {
        self.iterations == 0 || !self.task.options.functions.is_empty()
    }

    /// The format that this reply to `call` has to have: of one that is cut off, empty or has calls that are
    /// made, none.
    pub fn format_of(&self, call: &ModelCall, reply: &ModelReply) -> Option<&OutputFormat> {
        self.rules().output.as_ref().filter(|_| is_output(reply, call.last_by))
    }

    /// Tells the model what is wrong with the reply that was noted last. False when nothing is, or when no
    /// call is left in which it could do better.
    pub(super) fn correct(&mut self, last_by: Option<Limit>) -> bool {
        let Some(fault) = &self.output_fault else { return false };
        let may_go_on = last_by.is_none()
            && self.corrections < MOST_CORRECTIONS
            && self.iterations < self.task.limits.iterations;
        if may_go_on {
            let content = format!("{fault} Reply with the corrected JSON, and with nothing else.");
            self.messages.push(Message::User { content: content.into() });
            self.corrections += 1;
        }
        may_go_on
    }

    /// Why a run ends whose last reply has no calls and no limit ended.
    pub(super) fn reason_of_output(&self) -> StopReason {
        if self.output_fault.is_some() { StopReason::InvalidOutput } else { StopReason::Completed }
    }

    /// Why there is no value of an output that was wanted.
    pub(super) fn output_error(&mut self, stop_reason: StopReason, has_value: bool) -> Option<String> {
        self.rules().output.as_ref()?;
        let is_due = !has_value && !matches!(stop_reason, StopReason::Cancelled | StopReason::ToolCalls);
        let unfinished = is_due.then(|| "The run ended before its output was whole.".to_owned());
        self.output_fault.take().or(unfinished)
    }

    /// The output as a value, if it was wanted and is right.
    pub(super) fn output_value(&self, output: &str, stop_reason: StopReason) -> Option<Value> {
        let is_checked = matches!(
            stop_reason,
            StopReason::Completed | StopReason::MaxIterations | StopReason::TokenBudget
        );
        let is_right = self.is_output && self.output_fault.is_none();
        let is_wanted = is_checked && is_right && self.rules().output.is_some();
        // Whoever checked it has read it with a budget of the same size.
        is_wanted.then(|| MemoryBudget::default().read(output.as_bytes()).ok()).flatten()
    }
}

/// Whether a reply has to be the output, where one is wanted.
pub(super) fn is_output(reply: &ModelReply, last_by: Option<Limit>) -> bool {
    let is_last = reply.tool_calls.is_empty() || last_by.is_some();
    is_last && reply.finish == Finish::Done && !reply.content.trim().is_empty()
}
