//! The tools of a catalog in the form a provider wants, made once per catalog instead of once per request:
//! they are the same in every call of every run until a tool is swapped, and often most of the body.

use std::sync::Arc;

use agent_core::words::Catalog;
use arc_swap::ArcSwap;
use serde_json::value::{RawValue, to_raw_value};
use tracing::warn;

use crate::provider::Provider;
use crate::schema;

/// Runs keep the tools they started with, so that for a while after a swap two catalogs are in use; more
/// only when tools are swapped faster than runs end.
const KEPT: usize = 4;

/// OpenAI refuses a longer list.
const MOST_TOOLS: usize = 128;

/// The rendered tools of the catalogs used last, newest first.
#[derive(Debug, Default)]
pub(crate) struct ToolCache {
    recent: ArcSwap<Vec<Arc<Rendered>>>,
}

/// The tools of one catalog.
#[derive(Debug)]
pub(crate) struct Rendered {
    digest: String,
    /// Each tool by itself, with its name.
    each: Vec<(String, Box<RawValue>)>,
    /// The whole list.
    all: Arc<RawValue>,
}

impl ToolCache {
    /// The tools of a catalog as that provider is shown them.
    pub(crate) fn get(&self, tools: &Catalog, provider: Provider) -> serde_json::Result<Arc<Rendered>> {
        if let Some(known) = self.recent.load().iter().find(|known| known.digest == tools.digest()) {
            return Ok(Arc::clone(known));
        }
        // Two requests may get here at once and both render. That costs a millisecond, once per swap; a lock
        // would cost every request.
        let new = Arc::new(Rendered::new(tools, provider)?);
        self.recent.rcu(|recent| {
            let others = recent.iter().filter(|known| known.digest != new.digest);
            std::iter::once(&new).chain(others).take(KEPT).cloned().collect::<Vec<_>>()
        });
        Ok(new)
    }
}

impl Rendered {
    fn new(tools: &Catalog, provider: Provider) -> serde_json::Result<Self> {
        if tools.tools().len() > MOST_TOOLS {
            let left_out = tools.tools().len() - MOST_TOOLS;
            warn!(left_out, "a provider takes 128 tools: those that come last by name are not shown to it");
        }
        let mut each = Vec::new();
        for tool in tools.tools().iter().take(MOST_TOOLS) {
            let description = schema::cut(&tool.description);
            let parameters = schema::portable(&tool.input_schema);
            each.push((tool.name.clone(), provider.render_tool(&tool.name, &description, &parameters)?));
        }
        let all = to_raw_value(&each.iter().map(|(_, tool)| tool).collect::<Vec<_>>())?.into();
        Ok(Self { digest: tools.digest().to_owned(), each, all })
    }

    /// The list of the tools that `offers` wants; nothing when there are none, for providers refuse an empty list.
    pub(crate) fn list(&self, offers: impl Fn(&str) -> bool) -> serde_json::Result<Option<Arc<RawValue>>> {
        let shown: Vec<_> = self.each.iter().filter(|(name, _)| offers(name)).map(|(_, tool)| tool).collect();
        match shown.len() {
            0 => Ok(None),
            all if all == self.each.len() => Ok(Some(Arc::clone(&self.all))),
            _ => Ok(Some(to_raw_value(&shown)?.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolSpec;
    use serde_json::json;

    use super::*;

    fn catalog(digest: &str, count: usize) -> Catalog {
        let tool = |n: usize| ToolSpec {
            name: format!("t{n:03}"),
            description: "d".repeat(2_000),
            input_schema: json!({ "type": "object", "properties": { "x": { "description": "any" } } }),
            is_repeatable: true,
        };
        Catalog::new((0..count).map(tool).collect(), digest.into())
    }

    fn names(list: Option<Arc<RawValue>>) -> Vec<String> {
        let Some(list) = list else { return Vec::new() };
        let tools: Vec<serde_json::Value> = serde_json::from_str(list.get()).unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn tools_are_rendered_once_per_catalog() {
        let cache = ToolCache::default();
        let get = |digest: &str| cache.get(&catalog(digest, 2), Provider::Anthropic).unwrap();
        let (old, new) = (get("old"), get("new"));
        assert!(Arc::ptr_eq(&old, &get("old")) && Arc::ptr_eq(&new, &get("new")));
        for digest in ["a", "b", "c", "d"] {
            get(digest);
        }
        assert_eq!(cache.recent.load().len(), KEPT);
    }

    #[test]
    fn the_list_holds_what_is_offered_in_a_form_that_is_taken() {
        let tools = ToolCache::default().get(&catalog("d", 3), Provider::Anthropic).unwrap();
        assert_eq!(names(tools.list(|_| true).unwrap()), ["t000", "t001", "t002"]);
        assert_eq!(names(tools.list(|name| name != "t001").unwrap()), ["t000", "t002"]);
        assert!(tools.list(|_| false).unwrap().is_none());
        let all = tools.list(|_| true).unwrap().unwrap();
        let first: serde_json::Value = serde_json::from_str::<Vec<_>>(all.get()).unwrap().swap_remove(0);
        assert_eq!(first["description"].as_str().unwrap().chars().count(), 1024);
        assert!(first["input_schema"]["properties"]["x"]["type"].is_array());
    }

    #[test]
    fn no_more_tools_are_shown_than_a_provider_takes() {
        let tools = ToolCache::default().get(&catalog("d", 130), Provider::OpenAi).unwrap();
        assert_eq!(tools.each.len(), 128);
        let none = ToolCache::default().get(&Catalog::default(), Provider::OpenAi).unwrap();
        assert!(none.list(|_| true).unwrap().is_none());
    }
}
