//! The tools of one folder: starts them, follows what changes, and swaps what serves.
//!
//! `swap.rs` makes others serve, `admin.rs` is what operators do with them, `pinned.rs` the tools of runs
//! that are taken up, `policy_reading.rs` reads the policy again within a limit.

mod admin;
mod pinned;
mod policy_reading;
mod swap;

use std::collections::BTreeMap;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{Preparing, ToolFault, ToolSet, Toolbox, Versions};
use agent_core::words::{FoundDescription, Principal};
use boxed_async::boxed_async;
use tokio::sync::{Mutex, watch as watch_channel};
use tool_grants::{ComponentGrants, HostMeans, Learned, Learning, PolicyFile};

use crate::call::shadow_calls;
use crate::compiler::engine::Allocation;
use crate::config::Config;
use crate::folder::ANSWER_LIMIT;
use crate::inventory::{Inventory, Settled};
use crate::observer::ToolListing;
use crate::rollout::{Counted, Rollout};
use crate::runtime::Runtime;
use crate::serving::Serving;
use crate::serving::retired::Swapped;
use policy_reading::PolicyReading;

/// Longest time a start waits for its tools: enough for those that were compiled before. The others are
/// published when they are loaded.
const START_WAIT: Duration = Duration::from_millis(250);

/// Longest time a start waits to be told whether its tools folder is there: a busy machine is not to take one
/// that is missing for one that does not answer.
const LOOK_WAIT: Duration = Duration::from_secs(2);

/// The tools of one folder.
pub struct ToolHost {
    runtime: Arc<Runtime>,
    begun: Instant,
    /// Locked by the caller that drives it, for one step at a time.
    inventory: Mutex<Inventory>,
    policy_reading: PolicyReading,
    /// Also has the versions that runs began with and that serve no longer.
    published: Swapped<Published>,
    /// Whether everything that was in the folder at first has been loaded or refused.
    prepared: watch_channel::Sender<bool>,
    /// Absent unless [`Config::learn`].
    learning: Option<Arc<Learning>>,
    /// Present with [`Config::versions`].
    rollout: Option<Arc<Rollout>>,
}

/// What serves, and what does not. Swapped whole.
struct Published {
    serving: Arc<Serving>,
    faults: Vec<ToolFault>,
    /// How versions describe themselves that are refused for it, by component.
    described: BTreeMap<String, FoundDescription>,
    preparing: Preparing,
    has_no_folder: bool,
}

/// Why a tool host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The machine or its settings do not let wasmtime start.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// The policy cannot be read. Every problem of the file has a line.
    #[error("{0}")]
    Policy(String),
    /// The tools folder does not exist, and it is not the default one.
    #[error("the tools folder {} does not exist: create it, or set TOOLS_DIR to the one that is meant", .0.display())]
    NoFolder(PathBuf),
    /// Something else has the name of the tools folder, and it is not the default one.
    #[error("{} is no folder: set TOOLS_DIR to the one that is meant", .0.display())]
    NotAFolder(PathBuf),
}

impl ToolHost {
    /// Begins to load the tools of the folder. Those that were compiled before serve when this returns; the
    /// others are [prepared](Toolbox::preparing) as long as somebody [watches](Self::watch) or
    /// [reloads](Self::reload). Components that cannot be loaded are [faults](Toolbox::faults).
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let begun = Instant::now();
        let (path, most_tokens) = (config.folder.clone(), config.catalog_tokens);
        let may_be_absent = config.folder_may_be_absent;
        check_places(&config).await?;
        let learning = config.learn.then(Arc::<Learning>::default);
        let means = HostMeans {
            environment: config.environment.clone(),
            io: config.io_runtime.clone(),
            guests: config.guest_runtime.id(),
            http: config.http.clone(),
            limits: config.limits.of_policy(),
            keeps_values: config.key_value.is_some(),
            counts_fuel: config.metering,
            learning: learning.clone(),
        };
        let policy = config.policy.clone();
        let opened = tokio::task::spawn_blocking(move || ComponentGrants::open(&policy, means)).await;
        let grants = opened
            .map_err(|error| StartError::Policy(error.to_string()))?
            .map_err(|error| StartError::Policy(error.to_string()))?;
        let rollout = config
            .versions
            .clone()
            .map(|store| {
                Rollout::new(store, config.needs_approval, config.remembers, config.observer.clone())
            })
            .map(Arc::new);
        let runtime =
            Runtime::new(config, grants).map_err(|error| StartError::Engine(format!("{error:#}")))?;
        let runtime = Arc::new(runtime);
        let serving = Arc::new(Serving::new(runtime.clone(), vec![], Counted::default()));
        let mut inventory =
            Inventory::new(runtime.clone(), path, may_be_absent, most_tokens, rollout.clone()).await;
        inventory.poll_records(true);
        inventory.poll_folder();
        let prepared = tokio::time::timeout(START_WAIT, inventory.prepare()).await;
        let settled = match prepared {
            Ok(settled) => settled,
            Err(_elapsed) => inventory.settle(),
        };
        let published = Published {
            serving,
            faults: vec![],
            described: BTreeMap::new(),
            preparing: Preparing { first: true, ..Preparing::default() },
            has_no_folder: false,
        };
        let (published, prepared) = (Swapped::new(published), watch_channel::Sender::default());
        let inventory = Mutex::new(inventory);
        let policy_reading = PolicyReading::default();
        let host = Self { runtime, begun, inventory, policy_reading, published, prepared, learning, rollout };
        host.publish_and_remember(&mut *host.inventory.lock().await, settled).await;
        Ok(host)
    }

    /// Looks at the folder and waits until everything that is new in it serves or is refused. Calls and runs
    /// under way finish on the set they started with.
    pub async fn reload(&self) {
        let mut inventory = self.inventory.lock().await;
        self.reload_policy(&mut inventory).await;
        inventory.poll_records(true);
        inventory.poll_folder();
        let settled = inventory.settle();
        self.publish_and_remember(&mut inventory, settled).await;
        while !inventory.is_idle() {
            inventory.advance(false).await;
            let settled = inventory.settle();
            self.publish_and_remember(&mut inventory, settled).await;
        }
    }

    /// Follows the folder and the versions that replicas agreed on, and makes the calls of shadows. Never
    /// returns.
    pub async fn watch(&self) {
        let followed = async {
            loop {
                self.follow().await;
            }
        };
        let listened = async {
            match &self.rollout {
                Some(rollout) => rollout.store().listen().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = followed => {}
            () = shadow_calls::run(&self.runtime) => {}
            () = listened => {}
        }
    }

    async fn follow(&self) {
        {
            let mut inventory = self.inventory.lock().await;
            inventory.advance(true).await;
            self.reload_policy(&mut inventory).await;
            let settled = inventory.settle();
            self.publish_and_remember(&mut inventory, settled).await;
        }
    }

    /// Swaps the tool set if that makes a difference, writes down what a restart has to know, and only then
    /// tells those who wait for a change that it is made: what was disabled is not served again by a restart
    /// without the store.
    async fn publish_and_remember(&self, inventory: &mut Inventory, settled: Settled) {
        let revision = settled.revision;
        self.publish(settled);
        inventory.remember().await;
        if let Some((rollout, revision)) = self.rollout.as_ref().zip(revision) {
            rollout.set_served(revision);
        }
    }

    /// Reads the policy again. With another one in force, every file is looked at anew: it may be granted
    /// more or less now.
    async fn reload_policy(&self, inventory: &mut Inventory) {
        let runtime = self.runtime.clone();
        if self.policy_reading.read(move || runtime.grants.reload()).await {
            inventory.load_all_anew();
        }
    }

    pub fn list(&self) -> Vec<ToolListing> {
        self.published.load().serving.all.list()
    }

    /// The lines of a policy that let a tool's component do what its calls tried to do until now. Absent
    /// without [`Config::learn`], and when there is no such tool.
    pub fn learned(&self, tool: &str) -> Option<Learned> {
        let serving = self.published.load();
        let component = serving.serving.all.component_of(tool)?;
        Some(self.learning.as_ref()?.lines(
            component.identity(),
            &component.wants,
            &self.runtime.grants.current(),
        ))
    }

    /// How many calls hold a slot now.
    pub fn calls_under_way(&self) -> usize {
        self.runtime.slots.in_use()
    }

    /// Where instances come from on this machine.
    pub fn allocation(&self) -> Allocation {
        self.runtime.sandbox.allocation()
    }

    /// How many components this host compiled, and how many it found compiled.
    pub fn compile_counts(&self) -> (u64, u64) {
        self.runtime.cache.counts()
    }
}

/// Refuses a tools folder that is missing or none, and a policy that lies in it.
async fn check_places(config: &Config) -> Result<(), StartError> {
    let path = &config.folder;
    if !config.folder_may_be_absent {
        let absolute = || std::path::absolute(path).unwrap_or_else(|_error| path.clone());
        match tokio::time::timeout(LOOK_WAIT, tokio::fs::metadata(path)).await {
            Ok(Err(error)) if error.kind() == NotFound => return Err(StartError::NoFolder(absolute())),
            Ok(Ok(found)) if !found.is_dir() => return Err(StartError::NotAFolder(absolute())),
            // One that does not answer may answer later.
            Ok(_) | Err(_) => {}
        }
    }
    let named = match &config.policy {
        PolicyFile::At(file) => Some(file.clone()),
        PolicyFile::Beside(_) | PolicyFile::None => None,
    };
    let (misplaced, is_inside) = policies_in(path, named).await;
    if let Some(file) = misplaced {
        let file = file.display();
        tracing::warn!(%file, "a policy in the tools folder is not read: whoever may drop a tool there could grant it anything");
    }
    if is_inside {
        let problem = "TOOLS_POLICY names a file in the tools folder, where whoever may drop a tool could grant it \
                       anything: put it beside the folder";
        return Err(StartError::Policy(problem.into()));
    }
    Ok(())
}

/// The policy in a tools folder that is not read, and whether the one that is named lies there too. Of a
/// folder that does not answer only the path is known.
async fn policies_in(folder: &Path, named: Option<PathBuf>) -> (Option<PathBuf>, bool) {
    let seems_inside = named.as_ref().is_some_and(|file| tool_grants::seems_to_lie_in(file, folder));
    // Paths alone do not tell where links lead. A busy machine is not to take a policy for one that lies
    // elsewhere, so more time is given where one is named.
    let limit = if named.is_some() { ANSWER_LIMIT } else { LOOK_WAIT };
    let folder = folder.to_owned();
    let look = tokio::task::spawn_blocking(move || {
        let is_inside = named.is_some_and(|file| tool_grants::lies_in(&file, &folder));
        (tool_grants::misplaced(&folder), is_inside)
    });
    match tokio::time::timeout(limit, look).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) | Err(_) => (None, seems_inside),
    }
}

#[boxed_async]
impl Toolbox for ToolHost {
    fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet> {
        self.published.load().serving.of(caller)
    }

    fn for_run(&self, caller: &Principal, run_id: &str) -> Arc<dyn ToolSet> {
        self.published.load().serving.of_run(caller, run_id)
    }

    async fn pinned(&self, caller: &Principal, run_id: &str, versions: &Versions) -> Arc<dyn ToolSet> {
        self.pin(caller, run_id, versions).await
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        self.published.load().serving.all.clone()
    }

    fn faults(&self) -> Vec<ToolFault> {
        self.published.load().faults.clone()
    }

    fn no_tools(&self) -> Option<String> {
        let published = self.published.load();
        let none = published.has_no_folder && published.serving.all.components().is_empty();
        none.then(|| {
            "there are no tools: the default tools folder does not exist; create it, or set TOOLS_DIR".into()
        })
    }

    fn preparing(&self) -> Preparing {
        self.published.load().preparing.clone()
    }

    async fn prepared(&self) {
        // silent-ok: it cannot fail while `self` is there.
        let _ = self.prepared.subscribe().wait_for(|prepared| *prepared).await;
    }
}
