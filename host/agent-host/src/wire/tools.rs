//! The tool host over the tools folder.

use std::sync::Arc;

use agent_core::ports::KeyValueStore;
use agent_core::run::most_catalog_tokens;
use agent_core::secret::Secret;
use tokio::runtime::Handle;
use tool_host::{CallReport, Compiler, Limits, Observer, SetReport, StartError, ToolHost};

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
    pub kept: Kept,
    /// Whether to note down what components want that they are not granted, instead of refusing them.
    pub learn: bool,
    /// Whether a restart is to find what served.
    pub remembers: bool,
}

/// What components may keep, and whom they know. By default nothing and nobody.
#[expect(missing_debug_implementations, reason = "a store has nothing to show")]
#[derive(Default)]
pub struct Kept {
    /// Where components keep values.
    pub key_value: Option<Arc<dyn KeyValueStore>>,
    /// Under which they are told names of users; without it they know none.
    pub user_names_key: Option<Secret>,
}

/// The same with what a service has: counted.
pub(super) fn counted(metrics: Arc<ToolMetrics>) -> Arc<dyn Observer> {
    Arc::new(Counted(metrics))
}

/// Starts a tool host. Components that cannot be loaded are its faults, not its errors.
pub async fn start_observed(start: ToolsStart<'_>) -> Result<ToolHost, StartError> {
    let ToolsStart { config, token_budget, guest_runtime, observer, kept, learn, remembers } = start;
    ToolHost::start(tool_host::Config {
        folder: config.folder.clone(),
        cache: config.cache.clone(),
        // This very program, even if another version was installed since it started.
        compiler: Compiler::new("/proc/self/exe", &["compile"]),
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
        environment: Arc::new(|name| ProcessEnv.get(name).and_then(|value| value.into_string().ok())),
        // That of whoever starts the service, which runs no guests.
        io_runtime: Handle::current(),
        key_value: kept.key_value,
        user_names_key: kept.user_names_key,
        learn,
        remembers,
        observer,
    })
    .await
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
}
