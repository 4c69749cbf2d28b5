//! One immutable tool set: what a run sees from its start to its end.

use std::collections::HashMap;
use std::sync::Arc;

use agent_core::ports::{ToolRequest, ToolSet};
use agent_core::words::{Catalog, ToolOutcome, ToolReceipt, ToolReturn};
use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::call::{self, Tool};
use crate::component::Component;
use crate::observer::ToolListing;
use crate::policy::Policy;
use crate::runtime::Runtime;

/// A tool set.
pub(crate) struct Snapshot {
    runtime: Arc<Runtime>,
    catalog: Arc<Catalog>,
    tools: HashMap<Arc<str>, Arc<Tool>>,
    components: Vec<Arc<Component>>,
    /// What was in force when the set was made: its runs are never allowed more.
    policy: Arc<Policy>,
}

impl Snapshot {
    /// The tools of these components, whose names must not clash.
    pub(crate) fn new(runtime: Arc<Runtime>, components: Vec<Arc<Component>>) -> Self {
        let policy = runtime.grants.current();
        let mut tools = HashMap::new();
        let mut specs = Vec::new();
        let mut hasher = Sha256::new();
        for component in &components {
            hasher.update(component.id.as_bytes());
            for definition in &component.tools {
                let name: Arc<str> = definition.spec.name.as_str().into();
                specs.push(definition.spec.clone());
                let (component, definition) = (component.clone(), definition.clone());
                let tool = Tool { component, definition, name: name.clone(), policy: policy.clone() };
                tools.insert(name, Arc::new(tool));
            }
        }
        // Without grants the digest is that of the components alone.
        if !policy.entries().is_empty() {
            hasher.update(policy.digest().as_bytes());
        }
        let digest = format!("sha256:{:x}", hasher.finalize());
        Self { runtime, catalog: Arc::new(Catalog::new(specs, digest)), tools, components, policy }
    }

    /// Whether it is the tool set of these components under this policy.
    pub(crate) fn is_of(&self, components: &[Arc<Component>], policy: &Policy) -> bool {
        self.policy.digest() == policy.digest()
            && self.components.iter().map(|own| &own.id).eq(components.iter().map(|other| &other.id))
    }

    /// Every tool, sorted by name.
    pub(crate) fn list(&self) -> Vec<ToolListing> {
        let of_name = |name: &str| self.tools.get(name);
        let tools = self.catalog.tools().iter().filter_map(|spec| of_name(&spec.name));
        tools
            .map(|tool| ToolListing {
                tool: tool.name.to_string(),
                component: tool.component.name.to_string(),
                digest: tool.component.digest.clone(),
                description: tool.definition.spec.description.clone(),
                input_schema: tool.definition.spec.input_schema.clone(),
                hints: tool.definition.hints.clone(),
            })
            .collect()
    }
}

#[async_trait]
impl ToolSet for Snapshot {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        let Some(tool) = self.tools.get(request.call.name.as_str()) else {
            return unknown_tool(&request.call.name);
        };
        call::call(&self.runtime, tool, request).await
    }
}

fn unknown_tool(name: &str) -> ToolReturn {
    ToolReturn {
        content: "Error: there is no tool of that name.".into(),
        receipt: ToolReceipt::new(name, ToolOutcome::UnknownTool),
    }
}
