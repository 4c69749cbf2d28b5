//! What a run may still spend: whether the model is asked again, for how much, and how long the answers of
//! tools may be. The arithmetic is `budget`'s.

use std::sync::Arc;

use super::{ModelCall, Run, Step, Waiting, budget, refusal};
use crate::words::{Limit, RunLimits, StopReason, ToolCall, ToolReturn};

impl Run {
    /// What the model is told of a tool's answer to an open call: itself, or how much shorter it has to be
    /// for the run to go on, with what its open children may use. To be journaled as it comes from here, so
    /// that it is decided once, in the order in which the answers of a reply come.
    pub fn fit(&self, index: usize, answer: ToolReturn) -> ToolReturn {
        let Waiting::Tools(calls) = &self.waiting else { return answer };
        if self.has_given_call() {
            return answer;
        }
        let Some((call, None)) = calls.get(index) else { return answer };
        let read = |(call, answer): &(Arc<ToolCall>, Option<ToolReturn>)| {
            answer.as_ref().map(|answer| budget::estimate_answer(&call.name, &answer.content))
        };
        let others = calls.iter().filter(|(_, answer)| answer.is_none()).count() - 1;
        let input = calls.iter().filter_map(read).fold(self.next_input(), u64::saturating_add);
        let room = budget::answer_room(self.task.limits.tokens, self.spoken_for(), input);
        refusal::fit(call, answer, room, others)
    }

    pub(super) fn ask_model(&mut self) -> Step {
        if self.iterations >= self.task.limits.iterations {
            return self.finish(StopReason::MaxIterations);
        }
        let input_tokens = self.next_input();
        let wanted = self.task.options.max_tokens;
        let Some(max_tokens) = self.reply_allowance(input_tokens, wanted) else {
            return self.finish(StopReason::TokenBudget);
        };
        let temperature = self.task.options.temperature.unwrap_or(0.0);
        let last_by = self.last_by(input_tokens);
        Step::AskModel(ModelCall { max_tokens, temperature, input_tokens, last_by })
    }

    /// The limit that allows for no further call after one that reads so many tokens. A run without tools
    /// ends with its first reply in any case, and by no limit.
    fn last_by(&self, input_tokens: u64) -> Option<Limit> {
        let RunLimits { iterations, tokens } = self.task.limits;
        if self.catalog.tools().is_empty() {
            None
        } else if self.iterations + 1 >= iterations {
            Some(Limit::Iterations)
        } else {
            budget::is_last(tokens, self.usage.total(), input_tokens).then_some(Limit::Tokens)
        }
    }

    fn reply_allowance(&self, input_tokens: u64, wanted: Option<u32>) -> Option<u32> {
        budget::reply_allowance(self.task.limits.tokens, self.usage.total(), input_tokens, wanted)
    }

    /// Whether another model call fits into the budget, however short the answers of the tools. It is asked
    /// before any of them is called and does not depend on what they say.
    pub(super) fn can_read_answers(&self) -> bool {
        self.has_given_call() || self.reply_allowance(self.next_input(), None).is_some()
    }

    /// Ends the run, whose last reply asks for calls that are not made any more.
    pub(super) fn stop_before_tools(&mut self, reason: StopReason) -> Step {
        if let Waiting::Tools(calls) = std::mem::replace(&mut self.waiting, Waiting::Over) {
            let why = match reason {
                StopReason::TokenBudget => "the token budget leaves no room for another reply",
                _ => "the run ended before it was called",
            };
            self.leave_unanswered(calls, why);
        }
        self.finish(reason)
    }

    /// About how many tokens a model call reads that is made now.
    pub(super) fn next_input(&self) -> u64 {
        self.estimate_input(self.catalog.prompt_bytes() + self.rules().prompt_bytes())
    }

    /// About how many tokens a model call reads when the tools have so many bytes.
    pub(super) fn estimate_input(&self, tool_bytes: u64) -> u64 {
        match self.last {
            None => budget::estimate_first_input(tool_bytes, &self.messages),
            Some((usage, seen)) => {
                budget::estimate_next_input(usage, self.messages.get(seen..).unwrap_or_default())
            }
        }
    }
}
