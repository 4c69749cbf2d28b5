//! What a run is to do, and what it may use up.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Grants, Message, ParentCall, Principal, ReplyRules, StopReason, ToolCall};

/// Most model calls of one run (host/docs/interface/errors-and-limits.md#limits).
pub const MAX_ITERATIONS: u32 = 10;

/// Default of `TOKEN_BUDGET_PER_REQUEST` (host/docs/interface/errors-and-limits.md#limits).
pub const DEFAULT_TOKEN_BUDGET: u64 = 10_000;

/// What a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Most model calls.
    pub iterations: u32,
    /// Most tokens of all model calls together.
    pub tokens: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { iterations: MAX_ITERATIONS, tokens: DEFAULT_TOKEN_BUDGET }
    }
}

/// One of the two [`RunLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// [`RunLimits::iterations`].
    Iterations,
    /// [`RunLimits::tokens`].
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
    /// The caller's text; it becomes the last message before the first reply. Empty where the conversation in
    /// [`Options::history`] waits for a reply already, as it does when its newest message has images.
    pub input: String,
    /// What the deployment tells the model before everything else (`AGENT_INSTRUCTIONS`), fixed when the run
    /// began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The caller's wishes for the model calls and the tools.
    pub options: Options,
    /// What the run may use up.
    pub limits: RunLimits,
    /// `provider/model` that is asked; stands in the result when no reply came to say better.
    pub model: String,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Principal::is_anonymous")]
    pub principal: Principal,
    /// What the run may do, fixed when it began.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// The versions of components that it began with, by name, if it may be taken up again. Empty in journals
    /// of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// The call of another run that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentCall>,
}

impl Task {
    /// What the run answers, as a text for people: the input, or else the user's message that ends the
    /// history. Images are named, not shown. A run of one call names its tool.
    pub fn asked(&self) -> Cow<'_, str> {
        if let Some(call) = &self.options.call {
            return Cow::Owned(format!("(calls {})", call.name));
        }
        let is_said = |message: &&Message| !matches!(message, Message::System { .. });
        match self.options.history.iter().rfind(is_said) {
            Some(Message::User { content }) if self.input.is_empty() => content.text(),
            _ => Cow::Borrowed(&self.input),
        }
    }
}

/// Most names of [`Options::tools`]. The edge refuses more.
pub const MOST_CHOSEN_TOOLS: usize = 64;

/// Most messages of a caller's `options.history`. The edge refuses more.
pub const MOST_HISTORY_MESSAGES: usize = 200;

/// Most characters of one of them.
pub const LONGEST_HISTORY_MESSAGE: usize = 20_000;

/// What a caller may ask of a run: of every model call, and of the tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// Most tokens one reply may have. Absent: the provider's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, 0 to 2. Absent: 0 (host/docs/interface/errors-and-limits.md#limits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Names of the only tools that the run has, as the caller listed them. Absent: all that the caller may
    /// use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What was said before, the oldest first. In a task: what the token budget has room for
    /// ([`crate::agent_loop::kept_history`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Functions that the caller carries out, offered to the model beside the tools. The run ends when it
    /// calls one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<ClientFunction>,
    /// What the replies have to keep to.
    #[serde(default, skip_serializing_if = "ReplyRules::are_none")]
    pub rules: ReplyRules,
    /// The one call that the run makes instead of asking a model, whose answer is the run's output. No body
    /// of a client has it: a direct call that has to wait becomes such a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCall>,
}

/// Most functions of one caller. The edge refuses more.
pub const MOST_CLIENT_FUNCTIONS: usize = 64;

/// A function that a caller carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFunction {
    /// By which the model calls it.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub parameters: Value,
}
