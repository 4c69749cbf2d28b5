//! The tools of a catalog in the form of a provider, cached by the catalog's digest.
//!
//! The texts are the same in every call of every run until a tool is swapped, and often most of the body, so
//! they are rendered once per catalog instead of once per request. A catalog that was made for one caller,
//! with a choice of tools or with functions of the caller's, takes what it shares from the service's own,
//! which it cannot push out.

use std::sync::Arc;

use agent_core::words::{Catalog, ToolSpec};
use arc_swap::ArcSwap;
use serde_json::value::{RawValue, to_raw_value};
use tracing::warn;

use crate::portable_schema;
use crate::protocol::Protocol;

/// How many catalogs of each kind are cached. Runs keep the tools they started with, so that for a while
/// after a swap two are in use; more only when tools are swapped faster than runs end.
const CAPACITY: usize = 4;

/// The most tools that a provider is shown: OpenAI refuses a longer list.
const MOST_TOOLS: usize = 128;

/// The rendered tools of the catalogs used last.
#[derive(Debug, Default)]
pub(crate) struct RenderedToolsCache {
    /// The service's own catalogs.
    own: Recent,
    /// Rendered functions of single callers, for the calls of their runs.
    derived: Recent,
}

/// The newest first.
#[derive(Debug, Default)]
struct Recent(ArcSwap<Vec<Arc<RenderedTools>>>);

/// The tools of one catalog.
#[derive(Debug)]
pub(crate) struct RenderedTools {
    digest: String,
    /// Each tool by itself, with its name.
    each: Vec<(String, Arc<RawValue>)>,
    /// The whole list.
    all: Arc<RawValue>,
    /// The whole list, marked to be kept for later requests, where the protocol has a mark.
    kept: Option<Arc<RawValue>>,
}

impl RenderedToolsCache {
    /// The tools of a catalog as requests of that protocol show them. One cache belongs to one protocol.
    pub(crate) fn get(
        &self,
        tools: &Catalog,
        protocol: &dyn Protocol,
    ) -> serde_json::Result<Arc<RenderedTools>> {
        let recent = if tools.base().is_some() { &self.derived } else { &self.own };
        if let Some(known) = recent.find(tools.digest()) {
            return Ok(known);
        }
        let base = tools.base().map(|base| self.get(base, protocol)).transpose()?;
        // Two requests may render the same catalog at once. That costs a millisecond, once per swap; a lock
        // would cost every request.
        let new = Arc::new(RenderedTools::new(tools, base.as_deref(), protocol)?);
        recent.add(&new);
        Ok(new)
    }
}

impl Recent {
    fn find(&self, digest: &str) -> Option<Arc<RenderedTools>> {
        self.0.load().iter().find(|known| known.digest == digest).cloned()
    }

    fn add(&self, new: &Arc<RenderedTools>) {
        self.0.rcu(|recent| {
            let others = recent.iter().filter(|known| known.digest != new.digest);
            std::iter::once(new).chain(others).take(CAPACITY).cloned().collect::<Vec<_>>()
        });
    }
}

impl RenderedTools {
    /// `base` is the service's own catalog, rendered, if `tools` is made of it.
    fn new(tools: &Catalog, base: Option<&Self>, protocol: &dyn Protocol) -> serde_json::Result<Self> {
        if tools.tools().len() > MOST_TOOLS {
            let left_out = tools.tools().len() - MOST_TOOLS;
            warn!(left_out, "a provider takes 128 tools: those that come last by name are not shown to it");
        }
        // Tools of the service make room for the functions of a caller, who counts on them.
        let functions = tools.tools().iter().filter(|tool| !tools.is_own(tool)).count();
        let mut room = MOST_TOOLS.saturating_sub(functions);
        let (mut parts_of_caller, mut each) = (portable_schema::MOST_PARTS_OF_A_CALLER, Vec::new());
        for tool in tools.tools() {
            let is_own = tools.is_own(tool);
            if is_own && room == 0 {
                continue;
            }
            room -= usize::from(is_own);
            let shared = base.filter(|_| is_own).and_then(|base| base.get(&tool.name));
            let rendered = match shared {
                Some(shared) => Arc::clone(shared),
                None if is_own => render(tool, protocol, &mut { usize::MAX })?.into(),
                None => render(tool, protocol, &mut parts_of_caller)?.into(),
            };
            each.push((tool.name.clone(), rendered));
        }
        let list: Vec<&RawValue> = each.iter().map(|(_, tool)| &**tool).collect();
        let (all, kept) = (to_raw_value(&list)?.into(), protocol.render_kept_tools(&list)?.map(Arc::from));
        Ok(Self { digest: tools.digest().to_owned(), each, all, kept })
    }

    /// The tool of that name, if it is one of those that are shown.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<RawValue>> {
        let place = self.each.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.each.get(place).map(|(_, tool)| tool)
    }

    /// The list of the tools for which `offers` is true; `None` when there are none, because providers refuse
    /// an empty list. It is marked to be kept if `keeps`, unless it was cut down for this one request.
    pub(crate) fn list(
        &self,
        offers: impl Fn(&str) -> bool,
        keeps: bool,
    ) -> serde_json::Result<Option<Arc<RawValue>>> {
        let shown: Vec<_> =
            self.each.iter().filter(|(name, _)| offers(name)).map(|(_, tool)| &**tool).collect();
        match shown.len() {
            0 => Ok(None),
            all if all == self.each.len() => {
                Ok(Some(Arc::clone(self.kept.as_ref().filter(|_| keeps).unwrap_or(&self.all))))
            }
            _ => Ok(Some(to_raw_value(&shown)?.into())),
        }
    }
}

/// `parts` are those that may be read of schemas.
fn render(tool: &ToolSpec, protocol: &dyn Protocol, parts: &mut usize) -> serde_json::Result<Box<RawValue>> {
    let description = portable_schema::cut(&tool.description);
    let parameters = portable_schema::portable(&tool.input_schema, parts);
    protocol.render_tool(&tool.name, &description, &parameters)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::provider::Provider;

    fn catalog(digest: &str, count: usize) -> Catalog {
        let tool = |n: usize| ToolSpec {
            name: format!("t{n:03}"),
            description: "d".repeat(2_000),
            input_schema: json!({ "type": "object", "properties": { "x": { "description": "any" } } }),
            ..ToolSpec::default()
        };
        Catalog::new((0..count).map(tool).collect(), digest.into())
    }

    fn openai() -> &'static dyn Protocol {
        Provider::with_prefix("openai").unwrap().protocol()
    }

    fn anthropic() -> &'static dyn Protocol {
        Provider::with_prefix("anthropic").unwrap().protocol()
    }

    fn names(list: Option<Arc<RawValue>>) -> Vec<String> {
        let Some(list) = list else { return Vec::new() };
        let tools: Vec<serde_json::Value> = serde_json::from_str(list.get()).unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn tools_are_rendered_once_per_catalog() {
        let cache = RenderedToolsCache::default();
        let get = |digest: &str| cache.get(&catalog(digest, 2), anthropic()).unwrap();
        let (old, new) = (get("old"), get("new"));
        assert!(Arc::ptr_eq(&old, &get("old")) && Arc::ptr_eq(&new, &get("new")));
        for digest in ["a", "b", "c", "d"] {
            get(digest);
        }
        assert_eq!(cache.own.0.load().len(), CAPACITY);
    }

    #[test]
    fn callers_with_functions_of_their_own_share_the_tools_and_do_not_push_them_out() {
        let cache = RenderedToolsCache::default();
        let own = Arc::new(catalog("own", 3));
        let rendered = cache.get(&own, anthropic()).unwrap();
        for caller in 0..10 {
            let function = |name: &str| {
                let input_schema = json!({ "type": "object", "properties": { "of": { "const": caller } } });
                Arc::new(ToolSpec { name: name.into(), input_schema, ..ToolSpec::default() })
            };
            // One has the name of a tool that this caller did not choose.
            let tools = vec![own.tools()[0].clone(), function("t001"), function("z")];
            let derived = Catalog::derived(&own, tools, format!("derived-{caller}"));
            let derived = cache.get(&derived, anthropic()).unwrap();
            assert!(Arc::ptr_eq(derived.get("t000").unwrap(), rendered.get("t000").unwrap()));
            assert!(!Arc::ptr_eq(derived.get("t001").unwrap(), rendered.get("t001").unwrap()));
            assert_eq!(names(derived.list(|_| true, false).unwrap()), ["t000", "t001", "z"]);
        }
        assert!(Arc::ptr_eq(&rendered, &cache.get(&own, anthropic()).unwrap()));
        assert_eq!(cache.derived.0.load().len(), CAPACITY);
    }

    #[test]
    fn the_list_holds_what_is_offered_in_a_form_that_is_taken() {
        let tools = RenderedToolsCache::default().get(&catalog("d", 3), anthropic()).unwrap();
        assert_eq!(names(tools.list(|_| true, false).unwrap()), ["t000", "t001", "t002"]);
        assert_eq!(names(tools.list(|name| name != "t001", false).unwrap()), ["t000", "t002"]);
        assert!(tools.list(|_| false, false).unwrap().is_none());
        let all = tools.list(|_| true, false).unwrap().unwrap();
        let first: serde_json::Value = serde_json::from_str::<Vec<_>>(all.get()).unwrap().swap_remove(0);
        assert_eq!(first["description"].as_str().unwrap().chars().count(), 1024);
        assert!(first["input_schema"]["properties"]["x"]["type"].is_array());
    }

    #[test]
    fn no_more_tools_are_shown_than_a_provider_takes() {
        let tools = RenderedToolsCache::default().get(&catalog("d", 130), openai()).unwrap();
        assert_eq!(tools.each.len(), 128);
        let none = RenderedToolsCache::default().get(&Catalog::default(), openai()).unwrap();
        assert!(none.list(|_| true, false).unwrap().is_none());
    }

    #[test]
    fn a_function_of_a_caller_is_shown_however_many_tools_the_service_has() {
        let own = Arc::new(catalog("own", 130));
        let function = Arc::new(ToolSpec { name: "z".into(), ..ToolSpec::default() });
        let tools = own.tools().iter().cloned().chain([function]).collect();
        let derived = Catalog::derived(&own, tools, "derived".into());
        let tools = RenderedToolsCache::default().get(&derived, openai()).unwrap();
        assert!(tools.each.len() == 128 && tools.get("z").is_some() && tools.get("t126").is_some());
        assert!(tools.get("t127").is_none());
    }

    #[test]
    fn the_functions_of_a_caller_share_what_is_read_of_their_schemas() {
        let own = Arc::new(catalog("own", 1));
        let parts: serde_json::Map<_, _> = (0..1_500).map(|n| (n.to_string(), json!({}))).collect();
        let function = |n: usize| {
            let input_schema = json!({ "type": "object", "properties": { "x": { "properties": parts } } });
            Arc::new(ToolSpec { name: format!("f{n:02}"), input_schema, ..ToolSpec::default() })
        };
        let last = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
        let last = Arc::new(ToolSpec { name: "z".into(), input_schema: last, ..ToolSpec::default() });
        let shown = |functions: usize| {
            let tools = own.tools().iter().cloned().chain((0..functions).map(function)).chain([last.clone()]);
            let derived = Catalog::derived(&own, tools.collect(), functions.to_string());
            let tools = RenderedToolsCache::default().get(&derived, anthropic()).unwrap();
            let schema = |name| {
                let tool: serde_json::Value = serde_json::from_str(tools.get(name).unwrap().get()).unwrap();
                tool["input_schema"].clone()
            };
            (schema("t000"), schema("z"))
        };
        let (own_one, alone) = shown(0);
        assert_eq!(alone["properties"]["x"]["type"], "string");
        let any = json!({ "type": "object", "properties": {}, "additionalProperties": true });
        assert_eq!(shown(9), (own_one, any));
    }

    #[test]
    fn the_last_tool_carries_the_mark_where_the_protocol_has_one() {
        let list = |protocol, keeps| {
            let tools = RenderedToolsCache::default().get(&catalog("d", 3), protocol).unwrap();
            let list = tools.list(|_| true, keeps).unwrap().unwrap();
            serde_json::from_str::<Vec<serde_json::Value>>(list.get()).unwrap()
        };
        let marked = |tools: &[serde_json::Value]| {
            tools.iter().map(|tool| tool.get("cache_control").is_some()).collect::<Vec<_>>()
        };
        assert_eq!(marked(&list(anthropic(), true)), [false, false, true]);
        assert_eq!(list(anthropic(), true)[2]["cache_control"], json!({ "type": "ephemeral" }));
        assert_eq!(marked(&list(anthropic(), false)), [false; 3]);
        assert_eq!(list(openai(), true), list(openai(), false));
    }
}
