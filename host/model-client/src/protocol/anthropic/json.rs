//! The JSON of Anthropic Messages: what is sent, and the part of what comes back that is read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::lenient::lenient;

/// The body of a request.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop_sequences: Vec<&'a str>,
    /// Beside the turns, none of which has such a role.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<MarkedBlock<'a>>,
    pub(super) messages: Vec<MarkedTurn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<bool>,
}

/// `{"type": "none"}`. `disable_parallel_tool_use` stands in all that allow calls.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ToolChoice<'a> {
    pub(super) r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) disable_parallel_tool_use: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct OutputConfig<'a> {
    pub(super) format: Format<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Format<'a> {
    JsonSchema { schema: &'a Value },
}

#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct MarkedTurn<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<MarkedBlock<'a>>,
}

/// A block, and whether everything up to it is to be kept for later requests that begin alike.
#[derive(Debug, Serialize)]
pub(super) struct MarkedBlock<'a> {
    #[serde(flatten)]
    pub(super) block: Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// `{"type": "ephemeral"}`: for some minutes.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum CacheControl {
    Ephemeral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        /// Always an object.
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a str>,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum ImageSource<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// One entry of `tools`.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) input_schema: &'a Value,
}

/// The body of a successful response.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) content: Option<Vec<ReplyBlock>>,
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_details: Option<StopDetails>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
}

/// Details of a refusal.
#[derive(Debug, Deserialize)]
pub(super) struct StopDetails {
    pub(super) explanation: Option<String>,
}

/// A block of a reply.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ReplyBlock {
    Text {
        text: String,
    },
    ToolUse {
        id: Option<String>,
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Thinking, citations, tools that run at the provider: not read.
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    /// Tokens written to the provider's prompt cache, not counted in `input_tokens`.
    pub(super) cache_creation_input_tokens: Option<u64>,
    /// Tokens read from that cache, not counted in `input_tokens`.
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens: u64,
}
