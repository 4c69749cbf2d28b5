//! One call, until the provider accepts the form of its request: with other parameters, or with fewer tools.
//!
//! This is no retry: each request differs from the one before. Nothing is kept for later calls before a
//! request was accepted, so that no text which a refusal quotes can change how others are served. A function
//! that the caller has brought along is not left out, because the caller counts on it: its refusal ends the
//! call.
//!
//! - [`correction`]: what a refusal of a parameter says. [`reasoning`]: what a model that reasons refuses.
//!   [`token_bounds`]: how many tokens may be asked for. [`refused_tools`]: which tool a provider refuses.
//! - [`profile_cache`]: what was learnt, for ten minutes.

pub(crate) mod correction;
pub(crate) mod profile_cache;
mod reasoning;
mod refused_tools;
mod token_bounds;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::words::{Message, ModelReply, Usage};

use crate::http::provider_error::ProviderError;
use crate::protocol::provider_profile::ProviderProfile;
use correction::SentParameters;
use profile_cache::ProfileCache;
use refused_tools::{Next, RefusedToolSearch};

/// The most tokens of the reply to a request that is only sent to see whether its tools are accepted.
pub(crate) const PROBE_TOKENS: u32 = 16;

/// How often one call changes what it sends in place of thoughts, or lets the model reason again.
const MOST_REASONING_CHANGES: u8 = 2;

/// The state of one call.
#[derive(Debug)]
pub(crate) struct Negotiation<'a> {
    pub(crate) request: ModelRequest<'a>,
    /// What the next request is rendered with.
    pub(crate) profile: ProviderProfile,
    /// The profile as far as it holds for later calls, if this one has changed it.
    learnt: Option<ProviderProfile>,
    /// The token limit before one that holds for this call only.
    lasting_most_tokens: Option<Option<u32>>,
    /// The provider refused to stream, and nothing says that it refuses the request alike without that.
    is_stream_refused: bool,
    /// The provider refused the schema of this call's output, and may take others.
    is_schema_refused: bool,
    /// How often this call has changed what stands in for thoughts, or gone back to a model that reasons: a
    /// gateway before several providers might want it and refuse it for ever.
    reasoning_changes: u8,
    /// Tools that the provider is known to refuse.
    known_refused: Vec<String>,
    search: Option<RefusedToolSearch<'a>>,
    /// The text of the first refusal of a tool.
    refusal: String,
    /// Tokens of the replies to probes.
    spent: Usage,
}

impl<'a> Negotiation<'a> {
    /// Begins with what is known of the provider.
    pub(crate) fn new(request: ModelRequest<'a>, cache: &ProfileCache) -> Self {
        Self {
            profile: cache.profile(),
            learnt: None,
            lasting_most_tokens: None,
            is_stream_refused: false,
            is_schema_refused: false,
            reasoning_changes: 0,
            known_refused: cache.refused(request.tools),
            search: None,
            refusal: String::new(),
            spent: Usage::default(),
            request,
        }
    }

    /// Whether the next request shows this tool.
    pub(crate) fn offers(&self, name: &str) -> bool {
        if self.request.tool_choice == ToolChoice::None && !self.profile.tool_choice {
            return false;
        }
        match &self.search {
            Some(search) => search.offers(name),
            None => !self.known_refused.iter().any(|known| known == name),
        }
    }

    /// Whether the next request is a probe: only whether it is accepted matters, not its reply.
    pub(crate) fn is_probe(&self) -> bool {
        self.search.as_ref().is_some_and(RefusedToolSearch::is_probe) || !self.refused_functions().is_empty()
    }

    /// The provider accepted. Gives the reply, unless another request has to be sent.
    pub(crate) fn accepted(&mut self, reply: ModelReply) -> Option<ModelReply> {
        if let Some(search) = &mut self.search
            && search.after_acceptance() == Next::Send
        {
            self.spent = self.spent.plus(reply.usage.unwrap_or_default());
            return None;
        }
        let usage = reply.usage.map(|usage| usage.plus(self.spent));
        Some(ModelReply { usage, ..reply })
    }

    /// The provider refused while the reply was to be streamed. Whether it may be about that.
    pub(crate) fn refused_stream(&mut self, refusal: &ProviderError) -> bool {
        self.is_stream_refused = correction::refuses_streams(refusal);
        self.is_stream_refused || refusal.message.contains("stream")
    }

    /// The provider refused. Whether there is another form to send.
    pub(crate) fn refused(&mut self, refusal: &ProviderError) -> bool {
        // No stream was asked for any more, so the refusal before was not about that either.
        if correction::refuses_streams(refusal) {
            self.is_stream_refused = false;
        }
        let shows_tools = self.shows_tools();
        if let Some(better) = reasoning::correct(self.profile, refusal, shows_tools, self.has_calls()) {
            // Of the effort only the way back is counted: then it is the only difference.
            let is_counted = better.thoughts != self.profile.thoughts || better.reasons_beside_tools;
            self.reasoning_changes += u8::from(is_counted);
            if self.reasoning_changes > MOST_REASONING_CHANGES {
                return false;
            }
            self.learnt = Some(better);
            self.profile = better;
            return true;
        }
        let demands_call = matches!(self.request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        if demands_call && correction::refuses_demands(refusal) {
            // Only this caller demands it. A search for a refused tool would end with all of them.
            self.request.tool_choice = ToolChoice::Auto;
            return true;
        }
        let forbids_calls = self.request.tool_choice == ToolChoice::None && shows_tools;
        let rules = self.request.rules;
        let may_call = shows_tools && self.request.tool_choice != ToolChoice::None;
        let sent = SentParameters {
            tokens: self.profile.tokens(self.request.max_tokens),
            forbids_calls,
            format: rules.output.is_some() && (self.profile.format_beside_tools || !may_call),
            one_call: rules.one_call,
            stop: !rules.stop.is_empty(),
        };
        if let Some(better) = correction::correct(self.profile, refusal, sent) {
            if better.lasting {
                self.learnt = Some(better.profile);
            } else if better.profile.output_format == self.profile.output_format {
                self.lasting_most_tokens.get_or_insert(self.profile.most_tokens);
            } else {
                self.is_schema_refused = true;
            }
            self.profile = better.profile;
            return true;
        }
        match &mut self.search {
            Some(search) => search.after_refusal(refusal) == Next::Send,
            None => {
                self.search = RefusedToolSearch::begin(self.shown(), refusal);
                self.refusal.clone_from(&refusal.message);
                self.search.is_some()
            }
        }
    }

    /// The profile for later calls, if this one has found a better one.
    pub(crate) fn learnt_profile(&self) -> Option<ProviderProfile> {
        let learnt = self.learnt.or(self.is_stream_refused.then_some(self.profile))?;
        let most_tokens = self.lasting_most_tokens.unwrap_or(learnt.most_tokens);
        let output_format = learnt.output_format || self.is_schema_refused;
        let stream = learnt.stream && !self.is_stream_refused;
        Some(ProviderProfile { most_tokens, output_format, stream, ..learnt })
    }

    /// The tools that later requests should be sent without, if this call has found any.
    pub(crate) fn refused_tools(&self) -> Vec<&'a str> {
        self.search.as_ref().map(RefusedToolSearch::refused).unwrap_or_default()
    }

    /// Functions among them that the caller has brought along. With any, an accepted request is no answer.
    pub(crate) fn refused_functions(&self) -> Vec<&'a str> {
        let tools = self.request.tools;
        let is_function = |name: &&str| tools.shared(name).is_some_and(|tool| !tools.is_own(tool));
        self.refused_tools().into_iter().filter(is_function).collect()
    }

    /// The provider's text about them, not redacted.
    pub(crate) fn refusal(&self) -> &str {
        &self.refusal
    }

    fn shows_tools(&self) -> bool {
        self.request.tools.tools().iter().any(|tool| self.offers(&tool.name))
    }

    /// Whether the model has called tools in the conversation.
    fn has_calls(&self) -> bool {
        let calls = |message: &Message| match message {
            Message::Assistant { tool_calls, .. } => !tool_calls.is_empty(),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => false,
        };
        self.request.messages.iter().any(calls)
    }

    fn shown(&self) -> Vec<&'a str> {
        let names = self.request.tools.tools().iter().map(|tool| tool.name.as_str());
        names.filter(|name| self.offers(name)).collect()
    }
}
