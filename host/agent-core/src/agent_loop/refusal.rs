//! Answers to calls that no tool is asked for, and to those whose tool said too much. The texts are the
//! model's to read: each one says what to do instead.

use serde_json::Value;

use super::budget;
use crate::words::{Catalog, ToolCall, ToolOutcome, ToolReceipt, ToolReturn};

/// Most calls of one reply that are made. Nobody asks for more in earnest; a model that writes the same call
/// over and over does, and each of them costs a sandbox, a line in the journal and tokens to read its answer.
pub(super) const MOST_CALLS: usize = 32;

/// What every open call keeps of the room for answers while others are answered: enough for a short one.
const SHORT_ANSWER_TOKENS: u64 = 64;

/// Most tools that an answer names. The model was told all of them already.
const MOST_NAMES: usize = 32;

/// The answer to a call that cannot be made, if that is so whatever was answered before.
pub(super) fn refuse(catalog: &Catalog, index: usize, call: &ToolCall) -> Option<ToolReturn> {
    if index >= MOST_CALLS {
        let why = format!("there are too many calls in one reply: at most {MOST_CALLS} are made");
        return Some(not_run(call, &why));
    }
    unfit(catalog, call)
}

/// The answer to a call of no tool, or with arguments that are no JSON object.
pub fn unfit(catalog: &Catalog, call: &ToolCall) -> Option<ToolReturn> {
    if catalog.get(&call.name).is_none() {
        let text = format!("Error: there is no tool of that name. The tools are: {}.", names(catalog));
        return Some(without_running(call, text, ToolOutcome::UnknownTool));
    }
    if !call.arguments.is_object() {
        let text = "Error: the arguments are not a JSON object. Call the tool again with one.".to_owned();
        return Some(without_running(call, text, ToolOutcome::InvalidArguments));
    }
    None
}

fn names(catalog: &Catalog) -> String {
    let tools = catalog.tools();
    let names: Vec<_> = tools.iter().take(MOST_NAMES).map(|tool| tool.name.as_str()).collect();
    match tools.len().saturating_sub(MOST_NAMES) {
        0 if names.is_empty() => "none".to_owned(),
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The answer to the third equal call in a row whose two answers were equal.
pub(super) fn remind(call: &ToolCall) -> ToolReturn {
    not_run(
        call,
        "you made this very call twice and got the same answer both times. Use that answer, call with other \
         arguments, use another tool, or reply without one",
    )
}

/// The answer that somebody gave in place of a tool.
pub(super) fn answered(call: &ToolCall, answer: &Value) -> ToolReturn {
    let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
    without_running(call, text, ToolOutcome::Ok)
}

/// The answer to a call that began a run, when that has ended: what it answered, or why it did not.
pub(super) fn ended(call: &ToolCall, answer: &str, is_answered: bool, job_id: Option<String>) -> ToolReturn {
    let (content, outcome) = match is_answered {
        true => (answer.to_owned(), ToolOutcome::Ok),
        false => (format!("Error: {answer}"), ToolOutcome::Failed),
    };
    let mut ended = without_running(call, content, outcome);
    ended.receipt.detail_mut().child = job_id;
    ended
}

/// The answer to a call that was under way when its worker died or its run ended and must not be made twice.
pub fn interrupted(call: &ToolCall) -> ToolReturn {
    let text = "Error: the call was interrupted, and it is not known whether it had an effect. It was not made again, \
                because this tool may not be called twice for one purpose. Find out by other means, or say in your reply \
                that the outcome is unknown.";
    without_running(call, text.to_owned(), ToolOutcome::Interrupted)
}

/// The answer to a call that nobody approved: somebody rejected it, or it waited too long.
pub(super) fn rejected(call: &ToolCall, has_expired: bool, reason: Option<&str>) -> ToolReturn {
    let why = match (has_expired, reason) {
        (true, _) => "nobody approved it in time".to_owned(),
        (false, None) => "somebody who was asked rejected it".to_owned(),
        (false, Some(reason)) => format!("somebody who was asked rejected it: {reason}"),
    };
    not_run(call, &why)
}

/// The answer to a call that is not made.
pub fn not_run(call: &ToolCall, why: &str) -> ToolReturn {
    without_running(call, format!("Error: not run, because {why}."), ToolOutcome::NotRun)
}

fn without_running(call: &ToolCall, content: String, outcome: ToolOutcome) -> ToolReturn {
    ToolReturn { content, receipt: ToolReceipt::new(&call.name, outcome) }
}

/// What the model is told of an answer when there is `room` tokens for it and all that are still open, which
/// are `others`.
pub(super) fn fit(call: &ToolCall, answer: ToolReturn, room: u64, others: usize) -> ToolReturn {
    let tokens = budget::estimate_answer(&call.name, &answer.content);
    let room = room.saturating_sub(SHORT_ANSWER_TOKENS.saturating_mul(others as u64));
    if tokens <= room.max(SHORT_ANSWER_TOKENS) {
        return answer;
    }
    let content = if room <= SHORT_ANSWER_TOKENS {
        format!(
            "Error: the answer had about {tokens} tokens and there is no room left for it. Reply with what you have."
        )
    } else {
        format!(
            "Error: the answer had about {tokens} tokens and there is room for about {room}. Ask for less: call \
             the tool with arguments that narrow its answer, or reply with what you have."
        )
    };
    let receipt = ToolReceipt { outcome: ToolOutcome::OutputLimit, ..answer.receipt };
    ToolReturn { content, receipt }
}
