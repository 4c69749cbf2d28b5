//! One immutable tool set: what a run sees from its start to its end. `retired.rs` keeps versions loaded that
//! serve no longer.

pub(crate) mod retired;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tool_grants::as_caller;
use tool_policy::audience::Caller;
use tool_policy::{Lookup, Policy, Want};

use agent_core::ports::{ToolRequest, ToolSet, Versions, WaitTerms};
use agent_core::words::{Catalog, Principal, ToolCall, ToolReturn, TrialKind};
use boxed_async::boxed_async;
use sha2::{Digest, Sha256};

use crate::call;
use crate::call::tool::Tool;
use crate::component::Component;
use crate::observer::ToolListing;
use crate::rollout::{Counted, FirstCalls, RunningTrial, Side, TrialPart};
use crate::runtime::Runtime;

/// Most sets that are kept for callers who may not use everything: what is forgotten is made again.
const MOST_AUDIENCES: usize = 256;

/// The tools that serve: all of them, and for callers who may not use all what is left.
pub(crate) struct Serving {
    pub(crate) all: Arc<Snapshot>,
    /// The versions whose calls are counted.
    counted: Counted,
    /// Whether everybody may use everything.
    is_for_everybody: bool,
    /// By the digest of who is admitted to what. Held for a few instructions.
    of_audiences: Mutex<BTreeMap<String, Arc<Snapshot>>>,
}

impl Serving {
    /// The tools of these components, whose names must not clash.
    pub(crate) fn new(runtime: Arc<Runtime>, components: Vec<Arc<Component>>, counted: Counted) -> Self {
        let policy = runtime.grants.current();
        let all = Snapshot::new(runtime, components, policy, &counted);
        let admits_everybody = |component: &Arc<Component>| all.admits(component, &Caller::default());
        let is_for_everybody = all.components.iter().all(admits_everybody);
        Self { all: Arc::new(all), counted, is_for_everybody, of_audiences: Mutex::default() }
    }

    /// The tools that a caller may use. Callers who may use the same tools have one set.
    pub(crate) fn of(&self, caller: &Principal) -> Arc<Snapshot> {
        if self.is_for_everybody {
            return self.all.clone();
        }
        let caller = as_caller(caller);
        let digest = self.all.policy.admission_digest(&caller);
        if let Some(own) = self.of_audiences.lock().get(&digest) {
            return own.clone();
        }
        // Made without the lock: two callers may make the same one, of which the first is kept.
        let admitted = self.all.components.iter().filter(|component| self.all.admits(component, &caller));
        self.keep(digest, self.all.with(admitted.cloned().collect(), &self.counted))
    }

    /// The tools of one run of a caller: with the versions that are tried on it, as far as the caller may use
    /// them, in place of those that serve.
    pub(crate) fn of_run(&self, caller: &Principal, run_id: &str) -> Arc<Snapshot> {
        let set = self.of(caller);
        let caller = as_caller(caller);
        // Audiences are bound to digests: the version that is tried may be for fewer callers than the one
        // that serves.
        let is_tried =
            |trial: &&Arc<RunningTrial>| trial.serves(run_id) && set.admits(&trial.component, &caller);
        let tried: Vec<_> = self.counted.trials.iter().filter(is_tried).collect();
        if tried.is_empty() {
            return set;
        }
        let ids: Vec<_> = tried.iter().map(|trial| trial.trial.id.as_str()).collect();
        let key = format!("{} {}", set.catalog.digest(), ids.join(" "));
        if let Some(own) = self.of_audiences.lock().get(&key) {
            return own.clone();
        }
        let components = with_tried(&set.components, &tried);
        // A tool that another component has stays with that one, which `clashes` tells operators.
        if has_clashes(&components) {
            return set;
        }
        self.keep(key, set.with(components, &self.counted))
    }

    /// The tools of a run of a caller that began with these versions of components. In the place of a version
    /// that the caller may not use, the run has the one that serves.
    pub(crate) fn of_versions(&self, caller: &Principal, versions: &[Arc<Component>]) -> Arc<Snapshot> {
        let set = self.of(caller);
        let caller = as_caller(caller);
        let version = |component: &Arc<Component>| {
            let version = versions.iter().find(|version| version.name == component.name)?;
            Some(if set.admits(version, &caller) { version.clone() } else { component.clone() })
        };
        let own: Vec<_> = set.components.iter().filter_map(version).collect();
        if has_clashes(&own) || set.is_of(&own, &set.policy) {
            set
        } else {
            Arc::new(set.with(own, &Counted::default()))
        }
    }

    fn keep(&self, key: String, set: Snapshot) -> Arc<Snapshot> {
        let mut kept = self.of_audiences.lock();
        if kept.len() >= MOST_AUDIENCES {
            kept.clear();
        }
        kept.entry(key).or_insert(Arc::new(set)).clone()
    }

    /// True when it counts the calls of these versions.
    pub(crate) fn is_counting(&self, counted: &Counted) -> bool {
        self.counted.is_same(counted)
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
    fn new(
        runtime: Arc<Runtime>,
        components: Vec<Arc<Component>>,
        policy: Arc<Policy>,
        counted: &Counted,
    ) -> Self {
        let mut tools = HashMap::new();
        let mut specs = Vec::new();
        let mut hasher = Sha256::new();
        for component in &components {
            // Definitions of the components count, not only their bytes: what is kept under the digest is of
            // what models read.
            hasher.update(component.id.as_bytes());
            hasher.update(component.facts_digest().as_bytes());
            let tried = counted.trials.iter().find_map(|trial| part_in(trial, component));
            let counts = |first: &&Arc<FirstCalls>| first.counts(&component.name, &component.digest);
            let first_calls = counted.first_calls.iter().find(counts);
            for definition in &component.tools {
                specs.push(definition.spec.clone());
                let tool = Tool {
                    tried: tried.clone(),
                    first_calls: first_calls.cloned(),
                    ..Tool::new(component.clone(), definition.clone(), policy.clone())
                };
                tools.insert(tool.name.clone(), Arc::new(tool));
            }
        }
        // Without grants the digest is that of the components and their definitions alone.
        if !policy.entries().is_empty() {
            hasher.update(policy.digest().as_bytes());
        }
        let digest = format!("sha256:{:x}", hasher.finalize());
        Self { runtime, catalog: Arc::new(Catalog::new(specs, digest)), tools, components, policy }
    }

    fn with(&self, components: Vec<Arc<Component>>, counted: &Counted) -> Self {
        Self::new(self.runtime.clone(), components, self.policy.clone(), counted)
    }

    pub(crate) fn components(&self) -> &[Arc<Component>] {
        &self.components
    }

    fn admits(&self, component: &Component, caller: &Caller<'_>) -> bool {
        match self.policy.look_up(component.identity()) {
            Lookup::Entry(entry) => entry.audience.admits(caller),
            Lookup::OtherBuilds => false,
            Lookup::Nothing => true,
        }
    }

    /// Whether it is the tool set of these components under this policy.
    pub(crate) fn is_of(&self, components: &[Arc<Component>], policy: &Policy) -> bool {
        self.policy.digest() == policy.digest()
            && self.components.len() == components.len()
            && self.components.iter().zip(components).all(|(own, other)| own.is_same(other))
    }

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
                output_schema: tool.definition.output_schema().cloned(),
                hints: tool.definition.hints.clone(),
                oddities: tool.definition.oddities.clone(),
            })
            .collect()
    }
}

#[boxed_async]
impl ToolSet for Snapshot {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn versions(&self) -> Versions {
        let versions = self.components.iter();
        versions.map(|component| (component.name.to_string(), component.digest.clone())).collect()
    }

    fn may_wait(&self) -> bool {
        let asks = |component: &Arc<Component>| component.wants.contains(&Want::Ask);
        self.policy.asks() || self.runtime.grants.current().asks() || self.components.iter().any(asks)
    }

    fn may_wait_for(&self, tool: &str) -> bool {
        let Some(tool) = self.tools.get(tool) else { return false };
        self.policy.asks_about(&self.runtime.grants.current(), tool.component.identity())
    }

    fn approval(&self, call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        self.tools.get(call.name.as_str())?.approval(&self.runtime, call)
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        let Some(tool) = self.tools.get(request.call.name.as_str()) else {
            return ToolReturn::unknown_tool(&request.call.name);
        };
        call::call(&self.runtime, tool, request).await
    }
}

fn part_in(trial: &Arc<RunningTrial>, component: &Component) -> Option<TrialPart> {
    if trial.name != component.name {
        return None;
    }
    let side = match &component.digest {
        digest if *digest == trial.trial.digest => Side::New,
        digest if *digest == trial.trial.against => Side::Old,
        _ => return None,
    };
    Some(TrialPart { running: trial.clone(), side, is_shadow: false })
}

/// A version that is tried and does not serve its runs, because another component has a tool of that name.
pub(crate) struct Clash {
    /// The component that is tried.
    pub(crate) name: Arc<str>,
    pub(crate) tool: String,
    pub(crate) other: Arc<str>,
    /// Whether only a canary of the other component has the tool: runs without that one are served.
    pub(crate) is_with_canary: bool,
}

/// The canaries that clash in runs of callers who may use everything.
pub(crate) fn clashes(components: &[Arc<Component>], counted: &Counted) -> Vec<Clash> {
    let canaries = counted.trials.iter().filter(|trial| trial.trial.kind == TrialKind::Canary);
    let canaries: Vec<_> = canaries.collect();
    let of_runs = with_tried(components, &canaries);
    let has = |component: &Component, name: &str| component.tools.iter().any(|tool| tool.spec.name == name);
    let serves = |other: &Component, tool: &str| {
        components.iter().any(|serving| serving.name == other.name && has(serving, tool))
    };
    let clash = |canary: &&Arc<RunningTrial>| {
        let others = of_runs.iter().filter(|other| other.name != canary.name);
        let tools = others.flat_map(|other| other.tools.iter().map(move |tool| (other, &tool.spec.name)));
        let shared = tools.filter(|(_, tool)| has(&canary.component, tool));
        // What serves is in the way of more runs than a canary.
        let clashes = shared.map(|(other, tool)| (other, tool, !serves(other, tool)));
        let (other, tool, is_with_canary) = clashes.min_by_key(|(_, _, is_with_canary)| *is_with_canary)?;
        let (name, other) = (canary.name.clone(), other.name.clone());
        Some(Clash { name, tool: tool.clone(), other, is_with_canary })
    };
    canaries.iter().filter_map(clash).collect()
}

/// The components with the versions that are tried in place of those that serve.
fn with_tried(components: &[Arc<Component>], tried: &[&Arc<RunningTrial>]) -> Vec<Arc<Component>> {
    let version = |component: &Arc<Component>| {
        let trial = tried.iter().find(|trial| trial.name == component.name);
        trial.map_or_else(|| component.clone(), |trial| trial.component.clone())
    };
    components.iter().map(version).collect()
}

/// Whether two of the components have tools of one name.
fn has_clashes(components: &[Arc<Component>]) -> bool {
    let mut names = BTreeSet::new();
    let mut tools = components.iter().flat_map(|component| &component.tools);
    !tools.all(|tool| names.insert(tool.spec.name.as_str()))
}
