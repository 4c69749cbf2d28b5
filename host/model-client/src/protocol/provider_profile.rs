//! What a provider accepts in a request: which parameters, under which names, and how many tokens of a reply.

/// The parameters that not every model accepts, and the bounds of a reply's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProviderProfile {
    /// The model takes a temperature. Reasoning models refuse any.
    pub(crate) temperature: bool,
    /// The parameter for the most tokens is `max_completion_tokens`, not `max_tokens`.
    pub(crate) completion_tokens: bool,
    /// Ids of tool calls must be short. Elsewhere they are sent back unchanged, however long: some gateways
    /// keep a model's state in them.
    pub(crate) short_ids: bool,
    /// Ids of tool calls must have nine letters and digits (Mistral).
    pub(crate) nine_character_ids: bool,
    /// The most tokens of a reply that a request may ask for, once the model has refused more.
    pub(crate) most_tokens: Option<u32>,
    /// The fewest tokens of a reply that a request may ask for, once the server has refused fewer.
    pub(crate) least_tokens: Option<u32>,
    /// The server takes `tool_choice: none`. To one that does not, such requests are sent without tools.
    pub(crate) tool_choice: bool,
    /// The provider keeps what requests begin with, if it is told how far or under which key.
    pub(crate) prompt_cache: bool,
    /// The provider has a mode for answers that match a JSON Schema.
    pub(crate) output_format: bool,
    /// Such an answer can be asked for while tools may be called.
    pub(crate) format_beside_tools: bool,
    /// The provider can be told to make one call at most.
    pub(crate) one_call: bool,
    /// The provider takes texts at which a reply ends. Reasoning models refuse any.
    pub(crate) stop: bool,
    /// The server streams its replies.
    pub(crate) stream: bool,
    /// The model takes tools while it reasons. Where it does not, requests with tools tell it not to reason.
    pub(crate) reasons_beside_tools: bool,
    /// The provider wants back what the model thought before it called tools.
    pub(crate) thoughts: Option<Thoughts>,
}

/// The form in which a provider wants back what its model thought. Thoughts are not kept: what is sent in
/// their place says nothing, and the provider takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thoughts {
    /// `reasoning_content` of every message of the model (DeepSeek, Moonshot, Xiaomi).
    Text,
    /// A signature of the first call of every such message (Gemini).
    Signature,
}

impl ProviderProfile {
    /// OpenAI itself: its own servers know nothing but the new name of the token limit.
    pub(crate) const OPENAI: Self = Self {
        temperature: true,
        completion_tokens: true,
        short_ids: true,
        nine_character_ids: false,
        most_tokens: None,
        least_tokens: None,
        tool_choice: true,
        prompt_cache: true,
        output_format: true,
        format_beside_tools: true,
        one_call: true,
        stop: true,
        stream: true,
        reasons_beside_tools: true,
        thoughts: None,
    };
    /// Everybody else: the many servers that imitate OpenAI all know the old name of the token limit.
    pub(crate) const OTHER: Self = Self {
        completion_tokens: false,
        short_ids: false,
        prompt_cache: false,
        format_beside_tools: false,
        ..Self::OPENAI
    };

    /// The most tokens that a request asks for when its caller wants `wanted`.
    pub(crate) fn tokens(self, wanted: u32) -> u32 {
        let bounded = self.most_tokens.map_or(wanted, |most| most.min(wanted));
        self.least_tokens.map_or(bounded, |least| least.max(bounded))
    }
}
