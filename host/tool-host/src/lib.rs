//! Runs tools that are WebAssembly components: sandboxed, measured, and swapped while it serves.
//!
//! The only crate that names wasmtime. In reading order:
//! - `contract`, `compiled`, `component`, `describe`, `definition`: from a file to something that can be called.
//! - `schema`, `host_work`: what the host computes for guests, on a budget and beside the threads that serve.
//! - `folder`, `watch`, `snapshot`: the tools folder and the tool set made of it.
//! - `call`, `fault`, `bulkhead`, `lane`, `state`, `limits`, `progress`: one call, how it can fail, who may call at
//!   the same time, its thread, what the guest may ask for and use up.
//! - `engine`, `runtime`: what all of them share.
//!
//! What does not belong here: which tool a model should call, and what an operator may read.

mod bindings;
mod bulkhead;
mod call;
mod compiled;
mod component;
mod contract;
mod definition;
mod describe;
mod engine;
mod error;
mod fault;
mod folder;
mod host_work;
mod lane;
mod limits;
mod log_rate;
mod mean;
mod observer;
mod progress;
mod runtime;
mod schema;
mod snapshot;
mod state;
mod text;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use agent_core::ports::{ToolFault, ToolSet, Toolbox};
use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

pub use engine::Allocation;
pub use error::LoadError;
pub use limits::Limits;
pub use observer::{CallReport, Cost, NoObserver, Observer, SetReport, ToolListing};

use folder::Folder;
use runtime::Runtime;
use snapshot::Snapshot;
use watch::Watch;

/// What a tool host is made of.
pub struct Config {
    /// The folder whose `*.wasm` files are the tools.
    pub folder: PathBuf,
    /// Where compiled components are kept; without it every start compiles all of them.
    pub cache: Option<PathBuf>,
    /// What one call may use up.
    pub limits: Limits,
    /// Whether fuel is counted. It makes guests some ten percent slower.
    pub metering: bool,
    /// Where calls that take longer than one tick go on: a runtime that serves nothing else, so that guests
    /// which compute for seconds keep nobody waiting.
    pub lane: Handle,
    /// Who is told of calls and swaps.
    pub observer: Arc<dyn Observer>,
}

/// The tools of one folder.
pub struct ToolHost {
    runtime: Arc<Runtime>,
    path: PathBuf,
    /// Held while the folder is read, so that two scans never race.
    folder: Mutex<Folder>,
    published: ArcSwap<Published>,
}

/// What one scan came to. Swapped whole.
struct Published {
    snapshot: Arc<Snapshot>,
    faults: Vec<ToolFault>,
}

/// This machine or its settings do not let wasmtime start.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine cannot start: {0}")]
pub struct EngineError(String);

impl ToolHost {
    /// Loads every tool of the folder. Components that cannot be loaded are [faults](Toolbox::faults).
    pub async fn start(config: Config) -> Result<Self, EngineError> {
        let path = config.folder.clone();
        let runtime = Runtime::new(config).map_err(|error| EngineError(format!("{error:#}")))?;
        let runtime = Arc::new(runtime);
        let snapshot = Arc::new(Snapshot::new(runtime.clone(), vec![]));
        let host = Self {
            folder: Mutex::new(Folder::new(path.clone())),
            published: ArcSwap::from_pointee(Published { snapshot, faults: vec![] }),
            path,
            runtime,
        };
        host.reload().await;
        Ok(host)
    }

    /// Reads what has changed in the folder and swaps the tool set if that makes a difference. Calls and runs
    /// under way finish on the set they started with.
    pub async fn reload(&self) {
        let mut folder = self.folder.lock().await;
        let scan = folder.scan(&self.runtime).await;
        let before = self.published.load_full();
        let swapped = !before.snapshot.is_of(&scan.components);
        if !swapped && scan.faults == before.faults {
            return;
        }
        for fault in scan.faults.iter().filter(|fault| !before.faults.contains(fault)) {
            tracing::error!(file = fault.file, error = fault.error, "a tool component cannot be loaded");
        }
        let snapshot = if swapped {
            Arc::new(Snapshot::new(self.runtime.clone(), scan.components))
        } else {
            before.snapshot.clone()
        };
        let tools = snapshot.list();
        if swapped {
            let names: Vec<_> = tools.iter().map(|tool| tool.tool.as_str()).collect();
            let digest = snapshot.catalog().digest();
            tracing::info!(tools = names.join(","), digest, "the tool set was swapped");
        }
        let published = Published { snapshot, faults: scan.faults };
        let report = SetReport { tools: &tools, faults: &published.faults, swapped };
        self.runtime.observer.set_changed(&report);
        self.published.store(Arc::new(published));
    }

    /// Reloads whenever the folder changes. Never returns.
    pub async fn watch(&self) {
        let mut watch = Watch::new();
        loop {
            watch.changed(&self.path).await;
            self.reload().await;
        }
    }

    /// The tools that serve.
    pub fn list(&self) -> Vec<ToolListing> {
        self.published.load().snapshot.list()
    }

    /// How many calls hold a slot now.
    pub fn calls_under_way(&self) -> usize {
        (self.runtime.limits.concurrency as usize).saturating_sub(self.runtime.slots.available_permits())
    }

    /// Where instances come from on this machine.
    pub fn allocation(&self) -> Allocation {
        self.runtime.allocation
    }

    /// How many components this host compiled, and how many it found compiled.
    pub fn compile_counts(&self) -> (u64, u64) {
        self.runtime.cache.counts()
    }
}

impl Toolbox for ToolHost {
    fn current(&self) -> Arc<dyn ToolSet> {
        self.published.load().snapshot.clone()
    }

    fn faults(&self) -> Vec<ToolFault> {
        self.published.load().faults.clone()
    }
}

impl std::fmt::Debug for ToolHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolHost").field("folder", &self.path).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("folder", &self.folder)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
