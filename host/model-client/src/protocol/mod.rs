//! Wire protocols of language-model providers: conversations to JSON, and replies from JSON. No I/O.
//!
//! [`Protocol`] is all that the rest of the crate knows of a provider. One folder per provider implements it,
//! each with the JSON itself in its `json.rs`; [`provider`] is the table of them. What the implementations
//! share:
//!
//! - [`provider_profile`]: which parameters a model accepts.
//! - [`tool_call_ids`]: ids and names of tool calls that every provider takes.
//! - [`reply_limits`]: how many calls and tokens of a reply are believed. [`lenient`]: fields that may be
//!   malformed.
//! - [`text_tool_calls`]: tool calls that a model wrote into its text.
//! - [`streamed_reply`]: a reply from a stream of events, which `agent_core::event_stream` parses.

mod anthropic;
#[cfg(test)]
mod kept_beginnings;
mod lenient;
mod openai;
pub(crate) mod output_format;
pub(crate) mod provider;
pub(crate) mod provider_profile;
mod reply_limits;
pub(crate) mod streamed_reply;
pub(crate) mod text_tool_calls;
mod tool_call_ids;
mod unreadable_reply;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::secret::Secret;
use agent_core::words::ModelReply;
use http::header::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

pub(crate) use unreadable_reply::UnreadableReply;

use crate::connect_error::ConnectError;
use provider_profile::ProviderProfile;
use streamed_reply::ReplyAssembler;

/// A tool as it stands in requests.
type RenderedTool = serde_json::Result<Box<RawValue>>;

/// What is read in the body of a response.
type ReadReply = Result<ModelReply, UnreadableReply>;

/// How requests to one provider, and to the servers that imitate it, are written, and how their replies are
/// read.
pub(crate) trait Protocol: Send + Sync {
    /// The word before the slash in `LLM_MODEL`.
    fn prefix(&self) -> &'static str;

    /// How the provider's own models are named: `LLM_MODEL` without a prefix is this provider's when it
    /// begins so.
    fn model_names(&self) -> &'static [&'static str];

    /// The provider's own base address.
    fn default_base(&self) -> &'static str;

    /// The path of the endpoint below the path of a base address, which has no slash at its end.
    fn endpoint_path(&self, base_path: &str) -> String;

    /// The headers for authentication and for the version of the protocol.
    fn headers(&self, key: &Secret) -> Result<HeaderMap, ConnectError>;

    /// What the server at this address is assumed to accept before it has refused anything.
    fn initial_profile(&self, endpoint: &Url) -> ProviderProfile;

    /// A tool as an entry of `tools` in a request, `parameters` being its normalised schema.
    fn render_tool(&self, name: &str, description: &str, parameters: &Value) -> RenderedTool;

    /// The list of these tools, marked to be kept for later requests; `None` where the protocol has no mark.
    fn render_kept_tools(&self, _tools: &[&RawValue]) -> serde_json::Result<Option<Box<RawValue>>> {
        Ok(None)
    }

    /// The body of a request.
    fn render_request(&self, prompt: Prompt<'_>) -> serde_json::Result<Vec<u8>>;

    /// The reply in the body of a successful response. `model` is what [`ModelReply::model`] is set to.
    fn read_reply(&self, body: &[u8], request: &ModelRequest<'_>, model: &str) -> ReadReply;

    /// Puts the events of a streamed reply together into such a body.
    fn assembler(&self) -> Box<dyn ReplyAssembler>;
}

/// What a request is rendered from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    /// The model's name as the provider knows it.
    pub(crate) model: &'a str,
    /// The conversation.
    pub(crate) request: &'a ModelRequest<'a>,
    /// The request's tools in the provider's form; absent when there are none.
    pub(crate) tools: Option<&'a RawValue>,
    /// Which parameters the model accepts, and how many tokens.
    pub(crate) profile: ProviderProfile,
    /// Whether the reply is to be streamed.
    pub(crate) stream: bool,
}

impl Prompt<'_> {
    /// Whether the model is shown tools and told not to call any.
    pub(crate) fn forbids_calls(&self) -> bool {
        self.tools.is_some() && self.request.tool_choice == ToolChoice::None
    }
}
