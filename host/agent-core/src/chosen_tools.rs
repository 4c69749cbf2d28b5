//! The tools that a caller chose for a run (`options.tools`), among those that the caller may use.
//!
//! [`check`] and [`restricted`] are two steps: a choice is refused before its run begins, and a run that is
//! taken up goes on with what there still is of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use boxed_async::boxed_async;
use sha2::{Digest, Sha256};

use crate::ports::{ToolRequest, ToolSet, Versions, WaitTerms};
use crate::words::{Catalog, Principal, ToolCall, ToolReturn};

/// Chosen tools that the caller does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTools {
    /// Where they stand in [`Options::tools`](crate::words::Options::tools), counted from 0.
    pub indexes: Vec<usize>,
}

/// Whether every tool that was chosen is in the catalog, which is the caller's. That there is no such tool
/// and that the caller may not use it are the same error, because the catalog does not say either.
pub fn check(catalog: &Catalog, chosen: Option<&[String]>) -> Result<(), UnknownTools> {
    let chosen = chosen.unwrap_or_default().iter().enumerate();
    let indexes: Vec<_> =
        chosen.filter(|(_, name)| catalog.get(name).is_none()).map(|(index, _)| index).collect();
    if indexes.is_empty() { Ok(()) } else { Err(UnknownTools { indexes }) }
}

/// The digest of the catalog with the chosen tools only: that of the whole when all are.
pub fn digest(catalog: &Catalog, chosen: Option<&[String]>) -> String {
    match chosen.map(|chosen| kept(catalog, chosen)) {
        Some(kept) if kept.len() < catalog.tools().len() => digest_of(catalog, &kept),
        Some(_) | None => catalog.digest().to_owned(),
    }
}

/// Leaves out the tools that were not chosen. Names that are not among `tools` are ignored. The digest is
/// derived from that of `tools` and the names that are left, so that the set is as much the caller's own as
/// `tools` was.
pub fn restricted(tools: Arc<dyn ToolSet>, chosen: &[String]) -> Arc<dyn ToolSet> {
    let catalog = tools.catalog();
    let kept = kept(catalog, chosen);
    if kept.len() == catalog.tools().len() {
        return tools;
    }
    let specs = kept.iter().filter_map(|name| catalog.shared(name)).cloned().collect();
    let catalog = Catalog::derived(catalog, specs, digest_of(catalog, &kept));
    under_catalog(tools, catalog)
}

/// Shows the model another catalog of the tools. A call of what that does not name is refused as one of an
/// unknown tool.
pub fn under_catalog(tools: Arc<dyn ToolSet>, catalog: Catalog) -> Arc<dyn ToolSet> {
    Arc::new(UnderCatalog { tools, catalog: Arc::new(catalog) })
}

/// The names that are in the catalog, each once.
fn kept<'a>(catalog: &Catalog, chosen: &'a [String]) -> BTreeSet<&'a str> {
    chosen.iter().map(String::as_str).filter(|name| catalog.get(name).is_some()).collect()
}

fn digest_of(catalog: &Catalog, kept: &BTreeSet<&str>) -> String {
    let mut hash = Sha256::new();
    // With its length before it, no part can be read as the end of another.
    for part in std::iter::once(&catalog.digest()).chain(kept) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("sha256:{:x}", hash.finalize())
}

struct UnderCatalog {
    tools: Arc<dyn ToolSet>,
    catalog: Arc<Catalog>,
}

#[boxed_async]
impl ToolSet for UnderCatalog {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn versions(&self) -> Versions {
        self.tools.versions()
    }

    fn may_wait(&self) -> bool {
        self.tools.may_wait()
    }

    fn may_wait_for(&self, tool: &str) -> bool {
        self.tools.may_wait_for(tool)
    }

    fn approval(&self, call: &ToolCall, caller: &Principal) -> Option<WaitTerms> {
        self.tools.approval(call, caller)
    }

    /// The run asks for nothing that is not in the catalog; a component that calls other tools might.
    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        if self.catalog.get(&request.call.name).is_some() {
            return self.tools.call(request).await;
        }
        ToolReturn::unknown_tool(&request.call.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::EchoTools;
    use crate::words::ToolOutcome;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn tools() -> Arc<dyn ToolSet> {
        Arc::new(EchoTools::new(&["add", "echo", "read"]))
    }

    fn listed(tools: &dyn ToolSet) -> Vec<&str> {
        tools.catalog().tools().iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn what_is_not_there_is_named_by_its_place() {
        let (tools, chosen) = (tools(), names(&["read", "Read", "add", "delete", "read"]));
        let error = check(tools.catalog(), Some(&chosen)).unwrap_err();
        assert_eq!(error.indexes, [1, 3]);
        for chosen in [None, Some(names(&[])), Some(names(&["add", "add"]))] {
            check(tools.catalog(), chosen.as_deref()).unwrap();
        }
    }

    #[tokio::test]
    async fn a_restricted_set_has_and_calls_the_chosen_tools_only() {
        let some = restricted(tools(), &names(&["read", "add", "nope", "read"]));
        assert_eq!(listed(&*some), ["add", "read"]);
        let call = async |name: &str| {
            let call = ToolCall { id: "1".into(), name: name.into(), arguments: json!({}) };
            let deadline = Instant::now() + Duration::from_secs(1);
            some.call(ToolRequest::outside_of_runs("r", &call, deadline)).await.receipt.outcome
        };
        assert_eq!(call("read").await, ToolOutcome::Ok);
        for name in ["echo", "nope"] {
            assert_eq!(call(name).await, ToolOutcome::UnknownTool, "{name}");
        }
        assert_eq!(listed(&*restricted(tools(), &[])), [""; 0]);
    }

    proptest! {
        #[test]
        fn sets_have_one_digest_if_and_only_if_they_have_the_same_tools(
            one in prop::collection::vec("add|echo|read|nope", 0..6),
            other in prop::collection::vec("add|echo|read|nope", 0..6),
        ) {
            let (first, second) = (restricted(tools(), &one), restricted(tools(), &other));
            let is_same = listed(&*first) == listed(&*second);
            prop_assert_eq!(first.catalog().digest() == second.catalog().digest(), is_same);
            // What is reckoned without making the set is that of the set.
            let tools = tools();
            prop_assert_eq!(digest(tools.catalog(), Some(&one)), first.catalog().digest());
            prop_assert_eq!(digest(tools.catalog(), None), tools.catalog().digest());
            let others: Arc<dyn ToolSet> = Arc::new(EchoTools::of_digest("sha256:another"));
            prop_assert_ne!(digest(others.catalog(), Some(&one)), first.catalog().digest());
        }
    }
}
