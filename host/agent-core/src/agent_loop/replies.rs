//! How a run goes on behind a reply of the model.

use std::sync::Arc;

use super::{Calls, Run, Waiting, budget};
use crate::words::{Finish, Limit, Message, ModelReply, StopReason, ToolCall, Usage};

impl Run {
    pub(super) fn on_reply(
        &mut self,
        reply: ModelReply,
        input_tokens: Option<u64>,
        last_by: Option<Limit>,
    ) -> Waiting {
        let is_empty = reply.content.trim().is_empty() && reply.tool_calls.is_empty();
        let is_asked_again = is_empty && reply.finish == Finish::Done && !self.last_was_empty;
        self.iterations += 1;
        self.started.clear();
        self.interrupted.clear();
        self.nested.clear();
        self.recordings.clear();
        self.waits.clear();
        self.shown.clear();
        self.last_was_empty = is_empty;
        self.model = reply.model;
        let calls: Calls = reply.tool_calls.iter().cloned().map(|call| (Arc::new(call), None)).collect();
        let message = Message::Assistant { content: reply.content, tool_calls: reply.tool_calls };
        let usage = reply.usage.unwrap_or_else(|| {
            // A journal of an older version does not say. The tools of now may be others than those of then.
            let read = input_tokens.unwrap_or_else(|| self.estimate_input(0));
            budget::estimate_usage(read, &message)
        });
        self.usage = self.usage.plus(usage);
        if is_asked_again {
            // Not part of the conversation: the model is asked the same once more, and providers refuse
            // messages without content.
            self.last = Some((Usage { output_tokens: 0, ..usage }, self.messages.len()));
            return Waiting::Model;
        }
        self.messages.push(message);
        self.last = Some((usage, self.messages.len()));
        if self.correct(last_by) {
            return Waiting::Model;
        }
        self.judge(reply.finish, calls, is_empty, last_by)
    }

    /// The table of replies: whether the run goes on, and why it ends.
    fn judge(&mut self, finish: Finish, calls: Calls, is_empty: bool, last_by: Option<Limit>) -> Waiting {
        let (why, reason) = match (finish, last_by) {
            // The last of the calls may be cut in half, so none of them is made.
            (Finish::Length, _) => ("the reply that asked for it was cut off", self.reason_for_cut_off()),
            (Finish::ContentFilter, _) => {
                ("the reply that asked for it was stopped by a content filter", StopReason::ContentFilter)
            }
            (Finish::Done, _) if is_empty => ("", StopReason::EmptyReply),
            (Finish::Done, Some(limit)) => {
                ("this was the last reply that the run could have", limit.stop_reason())
            }
            (Finish::Done, None) if calls.is_empty() => ("", self.reason_of_output()),
            (Finish::Done, None) if calls.iter().any(|(call, _)| self.is_callers(call)) => {
                ("the reply also called functions of the caller, which come first", StopReason::ToolCalls)
            }
            // No model call is left that could read what the tools say. Calls have been made without saying
            // that they are the last by older versions, and are where there are no tools.
            (Finish::Done, None) if self.iterations >= self.task.limits.iterations => {
                ("the run reached its limit of model calls", StopReason::MaxIterations)
            }
            (Finish::Done, None) => return Waiting::Tools(calls),
        };
        let own =
            calls.into_iter().filter(|(call, _)| reason != StopReason::ToolCalls || !self.is_callers(call));
        let own = own.collect();
        self.leave_unanswered(own, why);
        Waiting::Nothing(reason)
    }

    /// Whether a call is for the caller to carry out.
    fn is_callers(&self, call: &ToolCall) -> bool {
        self.task.options.functions.iter().any(|function| function.name == call.name)
    }

    /// Whose limit a reply ran into: the caller's or the provider's, or what the budget had left.
    fn reason_for_cut_off(&self) -> StopReason {
        let left = self.task.limits.tokens.saturating_sub(self.usage.total());
        let wanted = self.task.options.max_tokens.map_or(u64::MAX, u64::from);
        let last_output = self.last.map_or(0, |(usage, _)| usage.output_tokens);
        if last_output < wanted && left < budget::LEAST_REPLY_TOKENS {
            StopReason::TokenBudget
        } else {
            StopReason::MaxTokens
        }
    }
}
