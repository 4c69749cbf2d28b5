//! What a provider was found to accept: remembered for a while, because servers are upgraded, models swapped behind
//! an address, and a refusal may have been of the moment.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use agent_core::words::{Catalog, ToolSpec};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::shape::Shape;

/// After that what was learnt is asked for again, at the price of one refused request.
const KEPT: Duration = Duration::from_secs(600);

/// The profile of one model of one provider.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The shape of requests as long as nothing was learnt.
    usual: Shape,
    learnt: ArcSwap<Learnt>,
}

#[derive(Debug, Clone, Default)]
struct Learnt {
    shape: Option<(Shape, Instant)>,
    refused: Vec<RefusedTool>,
}

/// A tool that the provider refuses to be shown.
#[derive(Debug, Clone)]
struct RefusedTool {
    name: String,
    /// Of its description and schema: another version of the tool is another try.
    version: u64,
    until: Instant,
}

impl Profile {
    /// Nothing is known yet.
    pub(crate) fn new(usual: Shape) -> Self {
        Self { usual, learnt: ArcSwap::default() }
    }

    /// How requests are shaped now.
    pub(crate) fn shape(&self) -> Shape {
        match self.learnt.load().shape {
            Some((shape, until)) if Instant::now() < until => shape,
            _ => self.usual,
        }
    }

    /// Remembers a shape that was accepted.
    pub(crate) fn learn(&self, shape: Shape) {
        let until = Instant::now() + KEPT;
        self.learnt.rcu(|learnt| Learnt { shape: Some((shape, until)), ..Learnt::clone(learnt) });
    }

    /// The names of the tools that requests go without now.
    pub(crate) fn refused(&self, tools: &Catalog) -> Vec<String> {
        let learnt = self.learnt.load();
        let now = Instant::now();
        let still = |known: &&RefusedTool| {
            now < known.until && tools.get(&known.name).is_some_and(|tool| version(tool) == known.version)
        };
        learnt.refused.iter().filter(still).map(|known| known.name.clone()).collect()
    }

    /// Remembers that these tools are refused.
    pub(crate) fn refuse(&self, names: &[&str], tools: &Catalog) {
        let now = Instant::now();
        let new = names.iter().filter_map(|name| tools.get(name)).map(|tool| RefusedTool {
            name: tool.name.clone(),
            version: version(tool),
            until: now + KEPT,
        });
        let new: Vec<_> = new.collect();
        self.learnt.rcu(|learnt| {
            let known =
                learnt.refused.iter().filter(|known| now < known.until && !names.contains(&&*known.name));
            Learnt { refused: known.chain(&new).cloned().collect(), ..Learnt::clone(learnt) }
        });
    }

    /// How many tools are refused, for metrics.
    pub(crate) fn count_refused(&self) -> usize {
        let now = Instant::now();
        self.learnt.load().refused.iter().filter(|known| now < known.until).count()
    }
}

fn version(tool: &ToolSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.description.hash(&mut hasher);
    tool.input_schema.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog(description: &str) -> Catalog {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: json!({ "type": "object" }),
            is_repeatable: true,
        };
        Catalog::new(vec![tool("a"), tool("b")], "d".into())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learnt_is_forgotten_after_a_while() {
        let profile = Profile::new(Shape::OTHER);
        let (bare, tools) = (Shape { temperature: false, ..Shape::OTHER }, catalog("d"));
        profile.learn(bare);
        profile.refuse(&["b", "gone"], &tools);
        assert_eq!((profile.shape(), profile.refused(&tools)), (bare, vec!["b".to_owned()]));
        tokio::time::advance(KEPT / 2).await;
        profile.refuse(&["a"], &tools);
        assert_eq!(profile.count_refused(), 2);
        tokio::time::advance(KEPT / 2).await;
        assert_eq!((profile.shape(), profile.refused(&tools)), (Shape::OTHER, vec!["a".to_owned()]));
        tokio::time::advance(KEPT / 2).await;
        assert_eq!((profile.refused(&tools), profile.count_refused()), (vec![], 0));
    }

    #[tokio::test]
    async fn another_version_of_a_refused_tool_is_shown_again() {
        let profile = Profile::new(Shape::OTHER);
        profile.refuse(&["a"], &catalog("d"));
        assert_eq!(profile.refused(&catalog("mended")), [] as [String; 0]);
    }
}
