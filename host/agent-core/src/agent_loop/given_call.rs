//! Runs of one call that was given to them: no model is asked, and the tool's answer is the output.
//!
//! The call stands in the run's task ([`Options::call`](crate::words::Options)), where a reply of a model
//! would have it otherwise. So it waits, is decided, made once and cancelled as the calls of any run are.

use std::sync::Arc;

use super::{Run, Waiting};
use crate::words::{Message, StopReason, Task};

/// What a run waits for that has just begun. A call that was given to it becomes the first message.
pub(super) fn first_step(task: &Task, messages: &mut Vec<Message>) -> Waiting {
    let Some(call) = &task.options.call else { return Waiting::Model };
    messages.push(Message::Assistant { content: String::new(), tool_calls: vec![call.clone()] });
    Waiting::Tools(vec![(Arc::new(call.clone()), None)])
}

impl Run {
    /// Whether the run makes one call and asks no model, so that no limit of tokens is about it.
    pub(super) fn has_given_call(&self) -> bool {
        self.task.options.call.is_some()
    }

    /// What follows when every open call has its answer.
    pub(super) fn behind_answers(&self) -> Waiting {
        if self.has_given_call() { Waiting::Nothing(StopReason::Completed) } else { Waiting::Model }
    }

    /// The output of the run: the model's last reply, or the answer to the call that was given.
    pub(super) fn last_words<'a>(&self, messages: &'a [Message]) -> Option<&'a str> {
        let is_direct = self.has_given_call();
        messages.iter().rev().find_map(|message| match message {
            Message::Tool { content, .. } if is_direct => Some(content.as_str()),
            Message::Assistant { content, .. } if !is_direct => Some(content.as_str()),
            _ => None,
        })
    }
}
