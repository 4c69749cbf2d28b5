//! The tool host over the tools folder.

use std::sync::Arc;

use agent_core::run::most_catalog_tokens;
use tokio::runtime::Handle;
use tool_host::{CallReport, Compiler, Limits, Observer, SetReport, StartError, ToolHost};

use crate::config::{EnvVars as _, ProcessEnv, Tools};
use crate::metrics::ToolMetrics;

/// Starts the tool host, counted. Components that cannot be loaded are its faults, not its errors.
pub(super) async fn start(
    config: &Tools,
    token_budget: u64,
    guest_runtime: Handle,
    metrics: Arc<ToolMetrics>,
) -> Result<ToolHost, StartError> {
    start_observed(config, token_budget, guest_runtime, Arc::new(Counted(metrics))).await
}

/// The same, for whoever counts otherwise or not at all.
pub async fn start_observed(
    config: &Tools,
    token_budget: u64,
    guest_runtime: Handle,
    observer: Arc<dyn Observer>,
) -> Result<ToolHost, StartError> {
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
