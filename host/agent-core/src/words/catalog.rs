//! The tools a model may choose from, as data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One tool, as the model is told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolSpec {
    /// Unique within a catalog.
    pub name: String,
    /// What the tool does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments; its root is an object.
    pub input_schema: Value,
    /// Whether a call whose answer was lost may be made again: the tool says that it is read-only or
    /// idempotent.
    pub is_repeatable: bool,
    /// Whether a call may destroy something, as the tool says: such calls of one reply are made one after
    /// another, in its order.
    pub is_destructive: bool,
    /// Whether the tool may call the run's other tools. Then what a call does is what those do, whatever the
    /// tool says of itself: it is never made again, and it waits for its turn if one of the tools that it can
    /// call is destructive.
    pub calls_tools: bool,
    /// Whether a call may ask somebody before it goes on.
    pub may_ask: bool,
    /// Whether a call does nothing but compute, call tools and ask. Then it may be made again, with the
    /// answers that were recorded of it, also when it was killed.
    pub is_replayable: bool,
    /// What the tool says of its calls, for clients that call it themselves. Models are not told.
    pub hints: ToolHints,
}

/// What a tool says of its calls, for a person or a program that decides about one. Nothing of it is
/// enforced. Absent: the tool says nothing of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// A call changes nothing.
    pub read_only: Option<bool>,
    /// A call may destroy something.
    pub destructive: Option<bool>,
    /// A second equal call changes nothing more.
    pub idempotent: Option<bool>,
    /// A call may reach something outside of the service. This one is the host's: it follows from what the
    /// tool's component imports.
    pub open_world: Option<bool>,
}

impl ToolSpec {
    /// About how many bytes the tool adds to every model call.
    pub fn prompt_bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.input_schema.to_string().len()
    }
}

/// Bytes of UTF-8 per token, on the low side for English text and JSON so that estimates err upwards.
pub(crate) const BYTES_PER_TOKEN: u64 = 3;

/// About how many tokens a model reads in that many bytes of tools.
pub fn prompt_tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// An immutable, sorted set of tools. Two catalogs with the same digest are the same.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: Vec<Arc<ToolSpec>>,
    digest: String,
    prompt_bytes: u64,
    /// The service's own catalog, if this one was made of it for one caller's wishes.
    base: Option<Arc<Catalog>>,
}

impl Catalog {
    /// A catalog of `tools`, whose names must be unique. `digest` names the code behind them, so that a
    /// swapped tool gives another digest even if its description stays the same.
    pub fn new(tools: Vec<ToolSpec>, digest: String) -> Self {
        Self::sorted(tools.into_iter().map(Arc::new).collect(), digest, None)
    }

    /// A catalog for one caller: tools of `base`, shared with it, and what the caller has added.
    pub fn derived(base: &Arc<Self>, tools: Vec<Arc<ToolSpec>>, digest: String) -> Self {
        Self::sorted(tools, digest, Some(base.base.as_ref().unwrap_or(base).clone()))
    }

    /// The catalog with tools of the host itself, which are the service's own as much as the others. One of
    /// the same name stands in place of another.
    #[must_use]
    pub fn with_own(&self, tools: &[Arc<ToolSpec>], digest: String) -> Self {
        let is_kept = |tool: &&Arc<ToolSpec>| tools.iter().all(|own| own.name != tool.name);
        let tools = self.tools.iter().filter(is_kept).chain(tools).cloned().collect();
        Self::sorted(tools, digest, None)
    }

    fn sorted(mut tools: Vec<Arc<ToolSpec>>, digest: String, base: Option<Arc<Self>>) -> Self {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let prompt_bytes = tools.iter().map(|tool| tool.prompt_bytes()).sum::<usize>() as u64;
        Self { tools, digest, prompt_bytes, base }
    }

    /// Every tool, sorted by name.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        &self.tools
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.shared(name).map(|tool| &**tool)
    }

    /// Finds the tool of that name as [`Self::get`] does, to be put into another catalog.
    pub fn shared(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        let place = self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok()?;
        self.tools.get(place)
    }

    /// The service's own catalog, if this one was made of it for one caller's wishes.
    pub fn base(&self) -> Option<&Arc<Self>> {
        self.base.as_ref()
    }

    /// Whether a tool of this catalog is the service's, and not a function that a caller has added.
    pub fn is_own(&self, tool: &Arc<ToolSpec>) -> bool {
        let is_in = |base: &Arc<Self>| base.shared(&tool.name).is_some_and(|own| Arc::ptr_eq(own, tool));
        self.base.as_ref().is_none_or(is_in)
    }

    /// The tools that a tool which calls tools can call, sorted by name: those that call none themselves, so
    /// that calls never nest deeper than one.
    pub fn nestable(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| &**tool).filter(|tool| !tool.calls_tools)
    }

    /// Names the tools and the code behind them.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// About how many bytes the tools add to every model call.
    pub fn prompt_bytes(&self) -> u64 {
        self.prompt_bytes
    }
}
