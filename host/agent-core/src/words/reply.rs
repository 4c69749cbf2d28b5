//! What a model replied.

use serde::{Deserialize, Serialize};

use super::{ToolCall, Usage};

/// What the model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text; may be empty.
    pub content: String,
    /// The tools it asks for.
    pub tool_calls: Vec<ToolCall>,
    /// What the provider says the call used; absent when it does not say.
    pub usage: Option<Usage>,
    /// Why it stopped writing.
    pub finish: Finish,
    /// `provider/model` that replied.
    pub model: String,
}

/// Why a model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done, or it waits for tools.
    Done,
    /// The model reached the most tokens it may write.
    Length,
    /// The provider's content filter stopped it, or the model declined to answer (OpenAI's `content_filter`
    /// and `refusal`, Anthropic's `refusal`). [`ModelReply::content`] is what the provider says about it, if
    /// anything.
    ContentFilter,
}

impl Finish {
    /// The reason as OpenTelemetry's conventions name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}
