//! A tool host over the tools folder.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::most_catalog_tokens;
use tokio::runtime::Handle;
use tool_host::{Compiler, Config, HttpMode, Launcher, NoObserver, ToolLimits};

use crate::program::guest_runtime;
use crate::settings::{EnvVars as _, ProcessEnv, Tools};

/// What a tool host of these settings is made of, for a command that only looks: components reach their
/// servers and have their secrets from the environment, keep nothing, know nobody, and nobody is told of
/// anything. `token_budget` is what one run may use up. Is called on the runtime that requests of components
/// are sent from, which runs no guests.
pub fn tool_host_config(tools: &Tools, token_budget: u64) -> Config {
    Config {
        folder: tools.folder.clone(),
        folder_may_be_absent: tools.is_default_folder,
        cache: tools.cache.clone(),
        // This very program, even if another version was installed since it started.
        compiler: Compiler::new("/proc/self/exe", &["compile"]),
        launcher: Launcher::new("/proc/self/exe", &["launch"]),
        mcp_look_limit: Duration::from_secs(15),
        limits: ToolLimits {
            timeout: tools.timeout,
            memory_bytes: tools.memory_bytes,
            output_bytes: tools.output_bytes,
            component_concurrency: tools.component_concurrency,
            ..ToolLimits::default()
        },
        catalog_tokens: most_catalog_tokens(token_budget),
        metering: tools.fuel_metering,
        guest_runtime: guest_runtime(),
        policy: tools.policy.clone(),
        environment: Arc::new(|name| ProcessEnv.get(name).and_then(|value| value.into_string().ok())),
        io_runtime: Handle::current(),
        versions: None,
        needs_approval: tools.needs_approval,
        http: HttpMode::default(),
        key_value: None,
        user_names_key: None,
        learn: false,
        remembers: false,
        observer: Arc::new(NoObserver),
    }
}
