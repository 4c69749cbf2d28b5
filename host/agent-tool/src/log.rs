//! The log of a command, for people, on the standard error: the standard output is for its result.

use std::io;

use anyhow::Context as _;
use host_setup::settings::log::LogLevel;
use host_setup::settings::{Log, ProcessEnv};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Our own crates, and `tool` for what the tools themselves log. `LOG_LEVEL` is about these; of all others
/// only warnings and errors are of interest.
const OURS: [&str; 5] = ["agent_core", "agent_tool", "backends", "host_setup", "tool"];

/// From now on the log of the process goes to the standard error.
pub(crate) fn install() -> anyhow::Result<()> {
    let level = match Log::from_vars(&ProcessEnv)?.level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    // A target names whatever begins with it: `tool` is `tool_host` too.
    let wanted = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OURS.map(|name| (name, level)));
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::IsTerminal::is_terminal(&io::stderr()));
    tracing_subscriber::registry().with(lines.with_filter(wanted)).try_init().context("installing the log")
}
