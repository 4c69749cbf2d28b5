//! What a provider was found to accept, cached for a while. It expires because servers are upgraded, models
//! are swapped behind an address, and the reason of a refusal may pass.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use agent_core::words::{Catalog, ToolSpec};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::protocol::provider_profile::ProviderProfile;

/// How long an entry holds. Learning it again costs one refused request.
const TIME_TO_LIVE: Duration = Duration::from_secs(600);

/// The profile of one model of one provider, and those of the service's own tools that it refuses. Functions
/// of callers are not kept: callers name them, so there is no end of them.
#[derive(Debug)]
pub(crate) struct ProfileCache {
    /// What holds as long as nothing was learnt.
    initial: ProviderProfile,
    learnt: ArcSwap<Learnt>,
}

#[derive(Debug, Clone, Default)]
struct Learnt {
    profile: Option<(ProviderProfile, Instant)>,
    refused: Vec<RefusedTool>,
}

/// A tool that the provider refuses to be shown.
#[derive(Debug, Clone)]
struct RefusedTool {
    name: String,
    /// A hash of its description and schema: another version of the tool is shown again.
    version: u64,
    until: Instant,
}

impl ProfileCache {
    /// Nothing is learnt yet.
    pub(crate) fn new(initial: ProviderProfile) -> Self {
        Self { initial, learnt: ArcSwap::default() }
    }

    /// The profile that requests are rendered with now.
    pub(crate) fn profile(&self) -> ProviderProfile {
        match self.learnt.load().profile {
            Some((profile, until)) if Instant::now() < until => profile,
            _ => self.initial,
        }
    }

    /// Keeps a profile that was accepted.
    pub(crate) fn learn(&self, profile: ProviderProfile) {
        let until = Instant::now() + TIME_TO_LIVE;
        self.learnt.rcu(|learnt| Learnt { profile: Some((profile, until)), ..Learnt::clone(learnt) });
    }

    /// The names of the tools that requests are sent without now.
    pub(crate) fn refused(&self, tools: &Catalog) -> Vec<String> {
        let learnt = self.learnt.load();
        let now = Instant::now();
        let still = |known: &&RefusedTool| {
            now < known.until && tools.get(&known.name).is_some_and(|tool| version(tool) == known.version)
        };
        learnt.refused.iter().filter(still).map(|known| known.name.clone()).collect()
    }

    /// Keeps that these tools are refused.
    pub(crate) fn refuse(&self, names: &[&str], tools: &Catalog) {
        let now = Instant::now();
        let own = names.iter().filter_map(|name| tools.shared(name)).filter(|tool| tools.is_own(tool));
        let new = own.map(|tool| RefusedTool {
            name: tool.name.clone(),
            version: version(tool),
            until: now + TIME_TO_LIVE,
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
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn catalog(description: &str) -> Catalog {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: json!({ "type": "object" }),
            ..ToolSpec::default()
        };
        Catalog::new(vec![tool("a"), tool("b")], "d".into())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learnt_is_forgotten_after_a_while() {
        let cache = ProfileCache::new(ProviderProfile::OTHER);
        let (bare, tools) = (ProviderProfile { temperature: false, ..ProviderProfile::OTHER }, catalog("d"));
        cache.learn(bare);
        cache.refuse(&["b", "gone"], &tools);
        assert_eq!((cache.profile(), cache.refused(&tools)), (bare, vec!["b".to_owned()]));
        tokio::time::advance(TIME_TO_LIVE / 2).await;
        cache.refuse(&["a"], &tools);
        assert_eq!(cache.count_refused(), 2);
        tokio::time::advance(TIME_TO_LIVE / 2).await;
        assert_eq!((cache.profile(), cache.refused(&tools)), (ProviderProfile::OTHER, vec!["a".to_owned()]));
        tokio::time::advance(TIME_TO_LIVE / 2).await;
        assert_eq!((cache.refused(&tools), cache.count_refused()), (vec![], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn functions_of_callers_are_not_kept() {
        let cache = ProfileCache::new(ProviderProfile::OTHER);
        let own = Arc::new(catalog("d"));
        let function = Arc::new(ToolSpec { name: "f".into(), ..ToolSpec::default() });
        let tools = own.tools().iter().cloned().chain([function]).collect();
        let derived = Catalog::derived(&own, tools, "e".into());
        cache.refuse(&["a", "f"], &derived);
        assert_eq!((cache.refused(&derived), cache.count_refused()), (vec!["a".to_owned()], 1));
    }

    #[tokio::test]
    async fn another_version_of_a_refused_tool_is_shown_again() {
        let cache = ProfileCache::new(ProviderProfile::OTHER);
        cache.refuse(&["a"], &catalog("d"));
        assert_eq!(cache.refused(&catalog("mended")), [] as [String; 0]);
    }
}
