//! The JSON of chat completions: what is sent, and the part of what comes back that is read. A field is
//! optional here if some server leaves it out.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::lenient::{lenient, lenient_count};

/// The body of a request.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<String>,
}

/// A word, or the function that has to be called.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ToolChoice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, function: Named<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct Named<'a> {
    pub(super) name: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: JsonSchema<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) strict: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        /// Null beside tool calls when there is no text.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'static str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: &'a str,
    },
}

/// A text stays a text: many servers read nothing else.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<UserPart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum UserPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl<'a> {
    pub(super) url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolCall<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) r#type: &'static str,
    pub(super) function: Function<'a>,
    /// Gemini's own: what the model thought before it made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: Cow<'a, str>,
    /// JSON as text.
    pub(super) arguments: Cow<'a, str>,
}

/// One entry of `tools`.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    pub(super) r#type: &'static str,
    pub(super) function: FunctionSpec<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionSpec<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a Value,
}

/// The body of a successful response.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) choices: Option<Vec<Choice>>,
    /// Of a gateway whose provider failed.
    pub(super) error: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Choice {
    pub(super) message: Option<ReplyMessage>,
    pub(super) finish_reason: Option<String>,
}

/// The model's message. Its reasoning (`reasoning`, `reasoning_content`) is not read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ReplyMessage {
    pub(super) content: Option<Content>,
    /// Stands in for the content when the model declines to answer.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Option<Vec<ReplyCall>>,
    /// The deprecated form of a single call; some servers have no other.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) function_call: Option<ReplyFunction>,
}

/// Text, or parts of which some are text (reasoning models of other makers).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

/// A tool call.
#[derive(Debug, Deserialize)]
pub(super) struct ReplyCall {
    pub(super) id: Option<String>,
    pub(super) function: ReplyFunction,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReplyFunction {
    pub(super) name: String,
    /// JSON as text. Some servers send the JSON itself.
    pub(super) arguments: Option<Value>,
}

/// Tokens as the server counted them. Without a count of the prompt it says too little to be used.
#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "lenient_count")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_count")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) prompt_tokens_details: Option<PromptTokens>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) completion_tokens_details: Option<CompletionTokens>,
}

/// Parts of the tokens that were read.
#[derive(Debug, Deserialize)]
pub(super) struct PromptTokens {
    #[serde(default, deserialize_with = "lenient_count")]
    pub(super) cached_tokens: Option<u64>,
}

/// Parts of the tokens that were written.
#[derive(Debug, Deserialize)]
pub(super) struct CompletionTokens {
    #[serde(default, deserialize_with = "lenient_count")]
    pub(super) reasoning_tokens: Option<u64>,
}
