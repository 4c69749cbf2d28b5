//! One call, until the provider accepts the form of its request: with other parameters, with fewer tools.
//!
//! This is no retry: each request differs from the one before, and nothing is remembered before one was accepted.

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::words::{ModelReply, Usage};

use crate::complaint::Complaint;
use crate::profile::Profile;
use crate::shape::{Sent, Shape};
use crate::tool_refusal::{Next, ToolSearch};

/// The most tokens of the reply to a request that only asks whether its tools are accepted.
pub(crate) const TRIAL_TOKENS: u32 = 16;

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Negotiation<'a> {
    pub(crate) request: ModelRequest<'a>,
    /// How the next request is shaped.
    pub(crate) shape: Shape,
    /// The shape as far as it is worth remembering, if this call has changed it.
    lesson: Option<Shape>,
    /// The bound before one that only holds at the moment.
    lasting_bound: Option<Option<u32>>,
    /// Tools that the provider is known to refuse.
    known: Vec<String>,
    search: Option<ToolSearch<'a>>,
    /// What the provider said when it first refused a tool.
    refusal: String,
    /// Tokens of replies that only answered a question of ours.
    spent: Usage,
}

impl<'a> Negotiation<'a> {
    /// Begins with what is known of the provider.
    pub(crate) fn new(request: ModelRequest<'a>, profile: &Profile) -> Self {
        Self {
            shape: profile.shape(),
            lesson: None,
            lasting_bound: None,
            known: profile.refused(request.tools),
            search: None,
            refusal: String::new(),
            spent: Usage::default(),
            request,
        }
    }

    /// Whether the next request shows this tool.
    pub(crate) fn offers(&self, name: &str) -> bool {
        if self.request.tool_choice == ToolChoice::None && !self.shape.tool_choice {
            return false;
        }
        match &self.search {
            Some(search) => search.offers(name),
            None => !self.known.iter().any(|known| known == name),
        }
    }

    /// Whether the reply to the next request is only wanted as a sign that it was accepted.
    pub(crate) fn only_tries(&self) -> bool {
        self.search.as_ref().is_some_and(ToolSearch::only_tries)
    }

    /// The provider accepted. The reply, unless something is still to be found out.
    pub(crate) fn accepted(&mut self, reply: ModelReply) -> Option<ModelReply> {
        if let Some(search) = &mut self.search
            && search.after_acceptance() == Next::Ask
        {
            self.spent = self.spent.plus(reply.usage.unwrap_or_default());
            return None;
        }
        let usage = reply.usage.map(|usage| usage.plus(self.spent));
        Some(ModelReply { usage, ..reply })
    }

    /// The provider refused. Whether there is another form to try.
    pub(crate) fn refused(&mut self, refusal: &Complaint) -> bool {
        let forbids_calls = self.request.tool_choice == ToolChoice::None && self.shows_tools();
        let sent = Sent { tokens: self.shape.tokens(self.request.max_tokens), forbids_calls };
        if let Some(better) = self.shape.corrected_by(refusal, sent) {
            if better.lasting {
                self.lesson = Some(better.shape);
            } else {
                self.lasting_bound.get_or_insert(self.shape.most_tokens);
            }
            self.shape = better.shape;
            return true;
        }
        match &mut self.search {
            Some(search) => search.after_refusal(refusal) == Next::Ask,
            None => {
                self.search = ToolSearch::begin(self.shown(), refusal);
                self.refusal.clone_from(&refusal.message);
                self.search.is_some()
            }
        }
    }

    /// The shape that later requests should have, if this call has found one.
    pub(crate) fn lesson(&self) -> Option<Shape> {
        let lesson = self.lesson?;
        Some(Shape { most_tokens: self.lasting_bound.unwrap_or(lesson.most_tokens), ..lesson })
    }

    /// The tools that later requests should go without, if this call has found any.
    pub(crate) fn refused_tools(&self) -> Vec<&'a str> {
        self.search.as_ref().map(ToolSearch::refused).unwrap_or_default()
    }

    /// The provider's words about them.
    pub(crate) fn refusal(&self) -> &str {
        &self.refusal
    }

    fn shows_tools(&self) -> bool {
        self.request.tools.tools().iter().any(|tool| self.offers(&tool.name))
    }

    fn shown(&self) -> Vec<&'a str> {
        let names = self.request.tools.tools().iter().map(|tool| tool.name.as_str());
        names.filter(|name| self.offers(name)).collect()
    }
}
