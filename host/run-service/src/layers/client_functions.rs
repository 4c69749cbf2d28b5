//! Functions that a caller carries out (`Options::functions`), offered to the model beside the tools.
//!
//! The run ends when the model calls one ([`StopReason::ToolCalls`](agent_core::words::StopReason)): the
//! caller goes on with another run whose history has the call and its answer.

use std::sync::Arc;

use agent_core::chosen_tools::under_catalog;
use agent_core::ports::ToolSet;
use agent_core::words::{Catalog, ClientFunction, ToolHints, ToolSpec};
use sha2::{Digest, Sha256};

/// The tools, and the functions as tools that are never called here: to the tools below they are unknown. A
/// function with the name of a tool is left out.
pub(super) fn offered(tools: Arc<dyn ToolSet>, functions: &[ClientFunction]) -> Arc<dyn ToolSet> {
    if functions.is_empty() {
        return tools;
    }
    let own = tools.catalog();
    let mut hash = Sha256::new();
    hash.update(own.digest());
    // Functions can always be written.
    hash.update(serde_json::to_vec(functions).unwrap_or_default());
    let others = functions.iter().filter(|function| own.get(&function.name).is_none());
    let specs = own.tools().iter().cloned().chain(others.map(|function| Arc::new(spec(function)))).collect();
    let catalog = Catalog::derived(own, specs, format!("sha256:{:x}", hash.finalize()));
    under_catalog(tools, catalog)
}

fn spec(function: &ClientFunction) -> ToolSpec {
    ToolSpec {
        name: function.name.clone(),
        description: function.description.clone(),
        input_schema: function.parameters.clone(),
        is_repeatable: false,
        is_destructive: false,
        // So that no tool can call it.
        calls_tools: true,
        may_ask: false,
        is_replayable: false,
        hints: ToolHints::default(),
    }
}
