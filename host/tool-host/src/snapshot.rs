//! One immutable tool set: what a run sees from its start to its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::ports::{ToolRequest, ToolSet};
use agent_core::words::{Catalog, Principal, ToolOutcome, ToolReceipt, ToolReturn, ToolSpec};
use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::call::{self, Tool};
use crate::component::Component;
use crate::grants::as_caller;
use crate::observer::ToolListing;
use crate::policy::Identity;
use crate::policy::Policy;
use crate::policy::audience::Caller;
use crate::policy::suggest::Want;
use crate::runtime::Runtime;

/// Most sets that are kept for callers who may not use everything: what is forgotten is made again.
const MOST_AUDIENCES: usize = 256;

/// The tools that serve: all of them, and for callers who may not use all what is left.
pub(crate) struct Serving {
    pub(crate) all: Arc<Snapshot>,
    /// Whether everybody may use everything.
    is_for_everybody: bool,
    /// By the digest of who is admitted to what. Held for a few instructions.
    of_audiences: Mutex<BTreeMap<String, Arc<Snapshot>>>,
}

impl Serving {
    /// The tools of these components, whose names must not clash.
    pub(crate) fn new(runtime: Arc<Runtime>, components: Vec<Arc<Component>>) -> Self {
        let all = Snapshot::new(runtime, components);
        let admits_everybody = |component: &Arc<Component>| all.admits(component, &Caller::default());
        let is_for_everybody = all.components.iter().all(admits_everybody);
        Self { all: Arc::new(all), is_for_everybody, of_audiences: Mutex::default() }
    }

    /// The tools that a caller may use. Callers who may use the same tools have one set.
    pub(crate) fn of(&self, caller: &Principal) -> Arc<Snapshot> {
        if self.is_for_everybody {
            return self.all.clone();
        }
        let caller = as_caller(caller);
        let digest = self.all.policy.admission_digest(&caller);
        if let Some(own) = self.of_audiences().get(&digest) {
            return own.clone();
        }
        // Made without the lock: two callers may make the same one, of which the first is kept.
        let admitted = self.all.components.iter().filter(|component| self.all.admits(component, &caller));
        let own =
            Snapshot::under(self.all.runtime.clone(), admitted.cloned().collect(), self.all.policy.clone());
        let mut kept = self.of_audiences();
        if kept.len() >= MOST_AUDIENCES {
            kept.clear();
        }
        kept.entry(digest).or_insert(Arc::new(own)).clone()
    }

    fn of_audiences(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Snapshot>>> {
        self.of_audiences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        Self::under(runtime, components, policy)
    }

    fn under(runtime: Arc<Runtime>, components: Vec<Arc<Component>>, policy: Arc<Policy>) -> Self {
        let mut tools = HashMap::new();
        let mut specs = Vec::new();
        let mut hasher = Sha256::new();
        for component in &components {
            hasher.update(component.id.as_bytes());
            for definition in &component.tools {
                let name: Arc<str> = definition.spec.name.as_str().into();
                let calls_tools = component.wants.contains(&Want::Toolbox);
                let spec = &definition.spec;
                // What it calls may not bear being called twice.
                let is_repeatable = spec.is_repeatable && !calls_tools;
                specs.push(ToolSpec { calls_tools, is_repeatable, ..spec.clone() });
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

    fn admits(&self, component: &Component, caller: &Caller<'_>) -> bool {
        let Identity { name, digest, signer } = component.identity();
        let entry = self.policy.find(name, digest, signer);
        entry.map_or_else(
            || !self.policy.means_others(name, digest, signer),
            |entry| entry.audience.admits(caller),
        )
    }

    /// Whether it is the tool set of these components under this policy.
    pub(crate) fn is_of(&self, components: &[Arc<Component>], policy: &Policy) -> bool {
        self.policy.digest() == policy.digest()
            && self.components.len() == components.len()
            && self.components.iter().zip(components).all(|(own, other)| own.is_same(other))
    }

    /// The component that has a tool.
    pub(crate) fn component_of(&self, tool: &str) -> Option<&Component> {
        self.tools.get(tool).map(|tool| &*tool.component)
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
