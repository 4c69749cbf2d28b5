//! What may happen to a run, as it stands in journals.
//!
//! What does not belong here: what follows from an event. That is [`crate::agent_loop::Run`]'s business.

use serde::{Deserialize, Serialize};

use super::{Decision, Limit, ModelReply, Task, ToolReceipt, ToolReturn, Wait};

/// Something that happened to a run. A run is the fold of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the first event of a run, and moved a few times only"
)]
pub enum Event {
    /// The run began. Always and only the first event. One that makes a call that was given to it stands in
    /// journals as `called`.
    #[serde(alias = "called")]
    Started {
        /// What it is to do.
        task: Task,
        /// Digest of the tool set it began with.
        tools: String,
    },
    /// The model replied to [`crate::agent_loop::Step::AskModel`].
    ModelReplied {
        /// What it said.
        reply: ModelReply,
        /// About how many tokens the call read, estimated when it was made: with the tools of then, whatever
        /// tools are loaded when this is read. Absent in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_tokens: Option<u64>,
        /// The limit that made this call the run's last; absent when another one was affordable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_by: Option<Limit>,
        /// What is wrong with the reply as the output that the caller wants ([`crate::words::OutputFormat`]),
        /// as it was found when it came. Absent when nothing is, and when it is no output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_fault: Option<String>,
    },
    /// Calls of [`crate::agent_loop::Step::CallTools`] are about to be made that must not be made twice:
    /// their tools are neither read-only nor idempotent, or call other tools. Written before the tools are
    /// called, so that whoever takes the run up knows that the calls may have been made.
    ToolsStarted {
        /// Which calls of the reply, counted from 0.
        indexes: Vec<usize>,
    },
    /// A call that may come to something that waits is about to be made: from here on the answers of its
    /// nested calls and questions are recorded, so that it can be made again with them. Written once for a
    /// call, however often it is made.
    RecordingStarted {
        /// Which call of the reply, counted from 0.
        index: usize,
        /// The time that its guest is told, in milliseconds since 1970, until an answer is recorded.
        at: u64,
        /// What its guest's random numbers are made from.
        seed: String,
    },
    /// One call of [`crate::agent_loop::Step::CallTools`] was answered. The answers of one reply come in any
    /// order.
    ToolReturned {
        /// Which call of the reply, counted from 0.
        index: usize,
        /// Answer to the call.
        answer: ToolReturn,
    },
    /// A tool is about to call another tool whose call must not be made twice. Written before that is called,
    /// so that after a kill an operator sees what may have happened. Changes nothing about the run but how
    /// many such calls it has left.
    NestedStarted {
        /// Which call of the reply makes it, counted from 0.
        index: usize,
        /// Which of that call's own calls it is, counted from 0.
        number: u32,
        /// The tool that is called.
        name: String,
    },
    /// A tool's call of another tool, or its question to somebody, was answered. The calls that one tool
    /// makes at once are answered in any order. Changes nothing about the run but how many such calls it has
    /// left, and what its call is told when it is made again.
    NestedReturned {
        /// Which call of the reply made it, counted from 0.
        index: usize,
        /// Which of that call's own calls it is, counted from 0.
        number: u32,
        /// What it came to. Its detail has the digest of the arguments if the call was made.
        receipt: ToolReceipt,
        /// The beginning of what the calling tool was told, when that was an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// What the calling tool was told, if it may be made again ([`Event::RecordingStarted`]); absent
        /// where that would be too much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recorded: Option<Box<RecordedAnswer>>,
    },
    /// Calls of the last reply wait for somebody. When all others are answered that need not wait for these,
    /// the run is let go of until somebody decides.
    Waiting {
        /// One for each call that waits.
        waits: Vec<Wait>,
        /// The epoch under which this is written, and decisions about it until the run is taken up.
        epoch: u64,
    },
    /// Somebody decided about a wait. Written by whoever takes the decision, behind the event that the wait
    /// stands in, so that of two decisions at once one is refused.
    Decided {
        /// The [`Wait::id`] of what was decided.
        wait: String,
        decision: Decision,
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

/// What a tool was told of a nested call or question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// Digest of the arguments that were asked for. Somebody may have made others of them.
    pub asked: String,
    /// The beginning of these arguments, to be shown.
    pub arguments: String,
    /// What the calling tool was told.
    pub content: String,
    /// The time that it is told from then on, in milliseconds since 1970.
    pub at: u64,
}

impl RecordedAnswer {
    /// How many bytes its texts have together.
    pub fn bytes(&self) -> usize {
        self.asked.len() + self.arguments.len() + self.content.len()
    }
}

impl From<ModelReply> for Event {
    /// A reply of which nothing is known but itself, as older versions journaled it.
    fn from(reply: ModelReply) -> Self {
        Self::ModelReplied { reply, input_tokens: None, last_by: None, output_fault: None }
    }
}
