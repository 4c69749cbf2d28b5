//! The tools of a catalog in the form a provider wants, made once per catalog instead of once per request:
//! they are the same in every call of every run until a tool is swapped, and often most of the body.

use std::sync::Arc;

use agent_core::catalog::Catalog;
use arc_swap::ArcSwap;
use serde_json::value::RawValue;

/// Runs keep the tools they started with, so that for a while after a swap two catalogs are in use; more
/// only when tools are swapped faster than runs end.
const KEPT: usize = 4;

/// The rendered tools of the catalogs used last, newest first.
#[derive(Debug, Default)]
pub(crate) struct ToolCache {
    recent: ArcSwap<Vec<Rendered>>,
}

#[derive(Debug, Clone)]
struct Rendered {
    digest: Arc<str>,
    json: Arc<RawValue>,
}

impl ToolCache {
    /// The JSON of `tools`; nothing when there are none, for providers refuse an empty list.
    pub(crate) fn get(
        &self,
        tools: &Catalog,
        render: impl FnOnce(&Catalog) -> serde_json::Result<Box<RawValue>>,
    ) -> serde_json::Result<Option<Arc<RawValue>>> {
        if tools.tools().is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.recent.load().iter().find(|known| *known.digest == *tools.digest()) {
            return Ok(Some(Arc::clone(&known.json)));
        }
        // Two requests may get here at once and both render. That costs a millisecond, once per swap; a lock
        // would cost every request.
        let new = Rendered { digest: tools.digest().into(), json: render(tools)?.into() };
        self.recent.rcu(|recent| {
            let others = recent.iter().filter(|known| known.digest != new.digest);
            std::iter::once(&new).chain(others).take(KEPT).cloned().collect::<Vec<_>>()
        });
        Ok(Some(new.json))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use agent_core::catalog::ToolSpec;
    use serde_json::json;

    use super::*;

    fn catalog(digest: &str) -> Catalog {
        let tool = ToolSpec {
            name: "t".into(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        Catalog::new(vec![tool], digest.into())
    }

    #[test]
    fn tools_are_rendered_once_per_catalog() {
        let (cache, renders) = (ToolCache::default(), Cell::new(0));
        let get = |digest: &str| {
            let json = cache.get(&catalog(digest), |catalog| {
                renders.set(renders.get() + 1);
                RawValue::from_string(json!(catalog.digest()).to_string())
            });
            json.unwrap().unwrap().to_string()
        };
        for digest in ["old", "new", "old", "new", "new"] {
            assert_eq!(get(digest), format!("{digest:?}"));
        }
        assert_eq!(renders.get(), 2);
        for digest in ["a", "b", "c", "d"] {
            get(digest);
        }
        assert_eq!(cache.recent.load().len(), KEPT);
    }

    #[test]
    fn no_tools_render_nothing() {
        let nothing = ToolCache::default().get(&Catalog::default(), |_| unreachable!("there is no tool"));
        assert!(nothing.unwrap().is_none());
    }
}
