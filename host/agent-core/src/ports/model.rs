//! The language model.

use std::time::{Duration, Instant};

use boxed_async::boxed_async;

use crate::words::{Catalog, Message, ModelReply, ReplyRules};

/// A language model that can choose tools.
#[boxed_async]
pub trait Model: Send + Sync {
    /// `provider/model`, as in `LLM_MODEL`.
    fn name(&self) -> &str;

    /// One reply to the conversation so far.
    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError>;
}

#[boxed_async]
impl<M: Model + ?Sized> Model for std::sync::Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        (**self).complete(request).await
    }
}

/// Takes the words of a reply while the model writes them. Readers of a run see them; nothing else depends on
/// them.
pub trait Deltas: Send + Sync {
    /// More text of the reply.
    fn text(&self, text: &str);

    /// The text so far does not count: the call failed, and whoever makes it again begins anew.
    fn reset(&self);
}

impl std::fmt::Debug for dyn Deltas + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deltas")
    }
}

/// One call of the model.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// Goes to the log, and to providers that document a header for it (OpenAI: `X-Client-Request-Id`).
    pub request_id: &'a str,
    /// The conversation so far.
    pub messages: &'a [Message],
    /// The tools the model may choose.
    pub tools: &'a Catalog,
    /// Whether it may choose any of them this time.
    pub tool_choice: ToolChoice<'a>,
    /// What the reply has to keep to, beside the calls.
    pub rules: &'a ReplyRules,
    /// Most tokens the reply may have.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: f64,
    /// When the caller stops waiting. Retries are not started if they could not end before it.
    pub deadline: Instant,
    /// Where the text of the reply goes while it is written; absent when nobody reads along. A model that
    /// cannot say it piece by piece says nothing there.
    pub deltas: Option<&'a dyn Deltas>,
}

/// Whether a model may call tools in its next reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// The model calls tools or answers, as it sees fit.
    #[default]
    Auto,
    /// The model has to answer in words. The tools still go with the request, because earlier calls of the
    /// conversation refer to them; they are left out only for servers that refuse `tool_choice: none`. A
    /// model may ignore this, so whoever sends it ignores calls in the reply.
    None,
    /// The model has to call a tool.
    Required,
    /// The model has to call the tool of that name.
    Tool(&'a str),
}

/// Why there is no reply. `detail` never holds a key or a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No answer within the time a call may take.
    #[error("the model provider {provider} did not answer in time")]
    Timeout {
        /// `provider/model` that was asked.
        provider: String,
    },
    /// No connection, or one that broke.
    #[error("the model provider {provider} could not be reached: {detail}")]
    Unreachable {
        /// `provider/model` that was asked.
        provider: String,
        /// What broke.
        detail: String,
    },
    /// The provider says that it is overloaded or broken (408, 409, 5xx).
    #[error("the model provider {provider} is unavailable: {detail}")]
    Unavailable {
        /// `provider/model` that was asked.
        provider: String,
        /// The status, and the provider's own words.
        detail: String,
        /// How long the provider asks us to wait.
        retry_after: Option<Duration>,
    },
    /// The provider limits our rate (429).
    #[error("the model provider {provider} limits our rate: {detail}")]
    RateLimited {
        /// `provider/model` that was asked.
        provider: String,
        /// The provider's own words.
        detail: String,
        /// How long the provider asks us to wait.
        retry_after: Option<Duration>,
        /// Whether the quota of the account is used up, so that asking again within the call would not help.
        quota_exhausted: bool,
    },
    /// The provider refuses the request (any other 4xx). Asking again would not help.
    #[error("the model provider {provider} refused the request: {detail}")]
    Refused {
        /// `provider/model` that was asked.
        provider: String,
        /// The status, and the provider's own words.
        detail: String,
    },
    /// The provider refuses the request because it is longer than the model's context, or than the account
    /// may send at once. Asking again would not help, a shorter conversation would.
    #[error("the model provider {provider} refused the request, which is too long for the model: {detail}")]
    TooLong {
        /// `provider/model` that was asked.
        provider: String,
        /// The status, and the provider's own words.
        detail: String,
    },
    /// The provider refuses functions that the caller has brought along, and takes the request without them.
    #[error("the model provider {provider} refuses the functions {}: {detail}", .functions.join(", "))]
    RefusedFunctions {
        /// `provider/model` that was asked.
        provider: String,
        /// Names of the refused ones.
        functions: Vec<String>,
        /// The provider's own words.
        detail: String,
    },
    /// The provider answered with something that is not the reply its protocol promises.
    #[error("the model provider {provider} sent a reply that cannot be read: {detail}")]
    Malformed {
        /// `provider/model` that was asked.
        provider: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl ModelError {
    /// The kind of error as a word, for metrics and traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::Unavailable { .. } => "unavailable",
            Self::RateLimited { .. } => "rate_limited",
            Self::Refused { .. } | Self::TooLong { .. } | Self::RefusedFunctions { .. } => "refused",
            Self::Malformed { .. } => "malformed",
        }
    }
}
