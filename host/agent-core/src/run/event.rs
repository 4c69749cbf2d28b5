//! What a run is to do and what may happen to it, as it stands in journals.
//!
//! What does not belong here: what follows from an event. That is [`super::Run`]'s business.

use serde::{Deserialize, Serialize};

use crate::message::Options;
use crate::ports::{ModelReply, ToolReturn};
use crate::result::StopReason;

/// Most model calls of one run (interface, Limits, "Agent iterations").
pub const MAX_ITERATIONS: u32 = 10;

/// Default of `TOKEN_BUDGET_PER_REQUEST` (interface, Limits).
pub const DEFAULT_TOKEN_BUDGET: u64 = 10_000;

/// What a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most model calls.
    pub iterations: u32,
    /// Most tokens of all model calls together.
    pub tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { iterations: MAX_ITERATIONS, tokens: DEFAULT_TOKEN_BUDGET }
    }
}

/// One of the two [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// [`Limits::iterations`].
    Iterations,
    /// [`Limits::tokens`].
    Tokens,
}

impl Limit {
    /// Why a run ended that this limit ended.
    pub fn stop_reason(self) -> StopReason {
        match self {
            Self::Iterations => StopReason::MaxIterations,
            Self::Tokens => StopReason::TokenBudget,
        }
    }
}

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The caller's text; it becomes the one user message.
    pub input: String,
    /// The caller's wishes for every model call.
    pub options: Options,
    /// What the run may use up.
    pub limits: Limits,
    /// `provider/model` that is asked; stands in the result when no reply came to say better.
    pub model: String,
}

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
    /// The model replied to [`super::Step::AskModel`].
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
    /// One call of [`super::Step::CallTools`] was answered. The answers of one reply come in any order.
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

/// How often in a row a run was begun or taken up without any progress since, from its journal. A run that
/// kills its worker every time would otherwise kill one worker after another.
pub fn attempts_without_progress(events: &[Event]) -> u32 {
    let idle = |event: &&Event| matches!(event, Event::Started { .. } | Event::TakenUp { .. });
    u32::try_from(events.iter().rev().take_while(idle).count()).unwrap_or(u32::MAX)
}

/// How often in a row a run was handed back without any progress since, from its journal.
pub fn hand_backs_without_progress(events: &[Event]) -> u32 {
    let idle =
        |event: &&Event| matches!(event, Event::Started { .. } | Event::TakenUp { .. } | Event::HandedBack);
    let idle = events.iter().rev().take_while(idle);
    let hand_backs = idle.filter(|event| matches!(event, Event::HandedBack));
    u32::try_from(hand_backs.count()).unwrap_or(u32::MAX)
}
