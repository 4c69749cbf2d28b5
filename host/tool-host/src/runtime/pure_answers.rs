//! Answers of tools that say that equal arguments always have equal answers (`pure`), kept by component and
//! arguments.
//!
//! Counts only for components that import nothing but the log: whatever else a tool could ask may answer
//! otherwise next time. The answers went through every check when they were kept. They are left out of what
//! is counted of versions (`call/tool.rs`): nothing ran for them.

use std::sync::Arc;

use agent_core::words::ToolCall;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};

/// Most bytes of all answers together.
const MOST_BYTES: u64 = 16 << 20;

/// About how many answers these are.
const ANSWERS: usize = 10_000;

/// What an entry weighs besides its answer: its key and the cache's own bookkeeping.
const ENTRY_BYTES: usize = 128;

#[derive(Debug)]
pub(crate) struct PureAnswers(Cache<PureCall, Arc<str>, Bytes>);

/// Weighs answers by their bytes.
#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<PureCall, Arc<str>> for Bytes {
    fn weight(&self, _: &PureCall, answer: &Arc<str>) -> u64 {
        answer.len().saturating_add(ENTRY_BYTES) as u64
    }
}

/// A call, as far as its answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PureCall([u8; 32]);

/// A tool whose answers may be kept: the digest of its calls up to their arguments.
#[derive(Debug, Clone)]
pub(crate) struct PureTool(Sha256);

impl PureTool {
    pub(crate) fn new(component: &str, tool: &str) -> Self {
        let mut hasher = Sha256::new();
        for part in [component, tool] {
            // With its length before it, no part can be read as the end of another.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher)
    }

    pub(crate) fn call(&self, call: &ToolCall) -> PureCall {
        let mut hasher = self.0.clone();
        call.hash_arguments(&mut hasher);
        PureCall(hasher.finalize().into())
    }
}

impl PureAnswers {
    pub(crate) fn new() -> Self {
        Self(Cache::with_weighter(ANSWERS, MOST_BYTES, Bytes))
    }

    pub(crate) fn get(&self, call: &PureCall) -> Option<Arc<str>> {
        self.0.get(call)
    }

    pub(crate) fn keep(&self, call: PureCall, answer: &str) {
        self.0.insert(call, answer.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_that_of_this_code_this_tool_and_these_arguments() {
        let answers = PureAnswers::new();
        let call = |component, tool, arguments| {
            PureTool::new(component, tool).call(&ToolCall { id: "1".into(), name: "t".into(), arguments })
        };
        answers.keep(call("sha256:1", "t", json!({"a": 1, "b": 2})), "3");
        let kept = answers.get(&call("sha256:1", "t", json!({"b": 2, "a": 1})));
        assert_eq!(kept.as_deref(), Some("3"));
        for other in [
            call("sha256:2", "t", json!({"a": 1, "b": 2})),
            call("sha256:1", "u", json!({"a": 1, "b": 2})),
            call("sha256:1", "t", json!({"a": 1, "b": 3})),
        ] {
            assert_eq!(answers.get(&other), None);
        }
    }
}
