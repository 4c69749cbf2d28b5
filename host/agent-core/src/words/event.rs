//! What may happen to a run, as it stands in journals.
//!
//! What does not belong here: what follows from an event. That is [`crate::run::Run`]'s business.

use serde::{Deserialize, Serialize};

use super::{Limit, ModelReply, Task, ToolReturn};

/// Something that happened to a run. A run is the fold of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began. Always and only the first event.
    Started {
        /// What it is to do.
        task: Task,
        /// Digest of the tool set it began with.
        tools: String,
    },
    /// The model replied to [`crate::run::Step::AskModel`].
    ModelReplied {
        /// What it said.
        reply: ModelReply,
        /// About how many tokens the call read, estimated when it was made: with the tools of then, whatever tools
        /// are loaded when this is read. Absent in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_tokens: Option<u64>,
        /// The limit that made this call the run's last; absent when another one was affordable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_by: Option<Limit>,
    },
    /// Calls of [`crate::run::Step::CallTools`] are about to be made that must not be made twice: their tools are
    /// neither read-only nor idempotent. Written before the tools are called, so that whoever takes the run up knows
    /// that the calls may have been made.
    ToolsStarted {
        /// Which calls of the reply, counted from 0.
        indexes: Vec<usize>,
    },
    /// One call of [`crate::run::Step::CallTools`] was answered. The answers of one reply come in any order.
    ToolReturned {
        /// Which call of the reply, counted from 0.
        index: usize,
        /// Its answer.
        answer: ToolReturn,
    },
    /// Somebody cancelled the run.
    Cancelled,
    /// Another worker took the run up where its journal ended. Changes nothing about the run.
    TakenUp {
        /// Names the taking, so that those of two workers are never taken for one.
        by: String,
    },
    /// Whoever drove the run let go of it in good order, to be taken up again. Changes nothing about the run.
    HandedBack,
}

impl From<ModelReply> for Event {
    /// A reply of which nothing is known but itself, as older versions journaled it.
    fn from(reply: ModelReply) -> Self {
        Self::ModelReplied { reply, input_tokens: None, last_by: None }
    }
}
