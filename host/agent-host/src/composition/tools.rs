//! The tool host over the tools folder.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::most_catalog_tokens;
use agent_core::ports::{KeyValueStore, ToolAdmin, ToolVersions};
use agent_core::secret::Secret;
use tokio::runtime::Handle;
use tool_host::{
    CallReport, Compiler, Environment, HttpMode, Launcher, Limits, Observer, SetReport, StartError, ToolHost,
};

use crate::config::{EnvVars as _, ProcessEnv, Tools};
use crate::metrics::ToolMetrics;

/// What a tool host is started with.
#[expect(missing_debug_implementations, reason = "an observer and a store have nothing to show")]
pub struct ToolsStart<'a> {
    /// The settings.
    pub config: &'a Tools,
    /// Tokens that one run may use up.
    pub token_budget: u64,
    /// Where guests go on that take long.
    pub guest_runtime: Handle,
    /// Is told of calls and swaps.
    pub observer: Arc<dyn Observer>,
    /// What components may keep, and whom they know.
    pub storage: ToolStorage,
    /// Where requests of components go, and where values of their secrets come from.
    pub egress: ToolEgress,
    /// Whether to note down what components want that they are not granted, instead of refusing them.
    pub learn: bool,
    /// Whether a restart is to find what served.
    pub remembers: bool,
}

/// What components may keep, and whom they know. By default nothing and nobody.
#[expect(missing_debug_implementations, reason = "a store has nothing to show")]
#[derive(Default)]
pub struct ToolStorage {
    /// Where versions of components are kept.
    pub versions: Option<Arc<dyn ToolVersions>>,
    /// Where components keep values.
    pub key_value: Option<Arc<dyn KeyValueStore>>,
    /// Under which they are told names of users; without it they know none.
    pub user_names_key: Option<Secret>,
}

/// Where requests of components go, and where values of their secrets come from. By default to their servers, and from the
/// environment.
#[expect(missing_debug_implementations, reason = "there is nothing to show")]
pub struct ToolEgress {
    /// Where requests go, and who is told of them.
    pub http: HttpMode,
    /// Looks up environment variables.
    pub environment: Environment,
}

impl Default for ToolEgress {
    fn default() -> Self {
        let environment = |name: &str| ProcessEnv.get(name).and_then(|value| value.into_string().ok());
        Self { http: HttpMode::default(), environment: Arc::new(environment) }
    }
}

/// An observer that counts in these metrics.
pub(super) fn counted(metrics: Arc<ToolMetrics>) -> Arc<dyn Observer> {
    Arc::new(Counted(metrics))
}

/// What administrators look after the tools by.
pub(super) fn administered(tools: &Arc<ToolHost>) -> Option<Arc<dyn ToolAdmin>> {
    Some(tools.clone())
}

/// Starts a tool host. Components that cannot be loaded are its faults, not its errors.
pub async fn start_observed(start: ToolsStart<'_>) -> Result<ToolHost, StartError> {
    ToolHost::start(tool_host_config(start)).await
}

/// What a tool host of these settings is made of.
pub fn tool_host_config(start: ToolsStart<'_>) -> tool_host::Config {
    let ToolsStart { config, token_budget, guest_runtime, observer, storage, egress, learn, remembers } =
        start;
    tool_host::Config {
        folder: config.folder.clone(),
        folder_may_be_absent: config.is_default_folder,
        cache: config.cache.clone(),
        // This very program, even if another version was installed since it started.
        compiler: Compiler::new("/proc/self/exe", &["compile"]),
        launcher: Launcher::new("/proc/self/exe", &["launch"]),
        mcp_look_limit: Duration::from_secs(15),
        limits: Limits {
            timeout: config.timeout,
            memory_bytes: config.memory_bytes,
            output_bytes: config.output_bytes,
            component_concurrency: config.component_concurrency,
            ..Limits::default()
        },
        catalog_tokens: most_catalog_tokens(token_budget),
        metering: config.fuel_metering,
        guest_runtime,
        policy: config.policy.clone(),
        environment: egress.environment,
        // That of whoever starts the service, which runs no guests.
        io_runtime: Handle::current(),
        versions: storage.versions,
        needs_approval: config.needs_approval,
        http: egress.http,
        key_value: storage.key_value,
        user_names_key: storage.user_names_key,
        learn,
        remembers,
        observer,
    }
}

/// Counts what the tool host reports.
struct Counted(Arc<ToolMetrics>);

impl Observer for Counted {
    fn call_ended(&self, call: &CallReport<'_>) {
        self.0.call_ended(call);
    }

    fn set_changed(&self, change: &SetReport<'_>) {
        let loaded: Vec<_> = change
            .tools
            .iter()
            .map(|tool| (tool.tool.as_str(), tool.component.as_str(), tool.digest.as_str()))
            .collect();
        self.0.set_changed(&loaded, change.faults);
    }

    fn version_withdrawn(&self, component: &str) {
        self.0.version_withdrawn(component);
    }

    fn secrets_met(&self, component: &str, times: u64) {
        self.0.secrets_met(component, times);
    }
}
