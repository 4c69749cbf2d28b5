//! The tools of MCP servers, and servers that misbehave on purpose: over HTTP, as child processes, and as
//! versions.

mod approval;
mod child;
mod fake;
mod http;
mod starting;
mod warnings;

use std::fs;
use std::time::Duration;

use agent_core::ports::Toolbox;
use tempfile::TempDir;
use tool_host::{Config, ToolLimits};

use crate::harness::{Host, WithPolicy};

/// A host whose policy is this, and the folder of the policy.
pub(crate) async fn host(
    policy: &str,
    limits: ToolLimits,
    change: impl FnOnce(&mut Config),
) -> (Host, TempDir) {
    let change = |config: &mut Config| {
        config.limits = limits;
        change(config);
    };
    let WithPolicy { host, folder } = WithPolicy::start_with(&[], policy, change).await;
    (host, folder)
}

/// Writes another policy and has it read.
pub(crate) async fn set_policy(host: &Host, home: &TempDir, policy: &str) {
    fs::write(home.path().join("policy.toml"), policy).unwrap();
    host.host.reload().await;
}

/// Follows the folder and the servers until something is so, without haste: looks have pauses between them.
pub(crate) async fn eventually(host: &Host, is_so: impl Fn(&Host) -> bool) {
    let so = async {
        while !is_so(host) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = host.host.watch() => unreachable!("following never ends"),
        so = tokio::time::timeout(Duration::from_secs(60), so) => so.expect("it becomes so"),
    }
}

/// The only fault.
pub(crate) fn fault(host: &Host) -> String {
    let faults = host.host.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].file, "docs (MCP)");
    faults[0].error.clone()
}
