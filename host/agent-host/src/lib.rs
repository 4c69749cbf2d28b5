//! The agent-host binary: configuration, wiring, metrics, command line, shutdown.
//!
//! - [`cli`]: one file per command. [`composition`]: who is given to whom.
//! - [`config`]: every variable, read once and checked whole.
//! - [`telemetry`]: what the log looks like. [`metrics`]: what is counted.
//! - [`serve`]: a listening socket from its first connection to its last.
//! - `http_recordings`: what tools were answered over HTTP, on its way into the store.
//! - `webhooks`: sends the ends of jobs to those who want them.
//! - `file_limits`: how many connections there may be. [`tasks`]: the one place that spawns. `orphans`: what
//!   child processes leave behind in a container.
//!
//! What does not belong here: anything a crate of the fan could do without knowing the others.

#![cfg_attr(
    not(all(feature = "lambda", feature = "mcp")),
    allow(dead_code, unused_imports, reason = "used by what this binary is built without")
)]

pub mod cli;
pub mod composition;
pub mod config;
mod file_limits;
mod http_recordings;
pub mod metrics;
#[cfg(target_os = "linux")]
mod orphans;
pub mod serve;
pub mod tasks;
pub mod telemetry;
mod webhooks;
