//! What the log looks like: which entries are written, in which form, and that a panic is one of them.
//!
//! What does not belong here: what is worth logging. That is for the layer that answers a failure to say.

mod json_lines;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};
use std::panic::PanicHookInfo;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer, Registry};

use crate::config::{Log, LogFormat, LogLevel};
use crate::tasks;
use json_lines::JsonLines;

/// Our own crates, and `tool` for what the tools themselves log, as they stand in an entry's target.
/// `LOG_LEVEL` is about these; of all others only warnings and errors are of interest to an operator.
const OURS: [&str; 7] =
    ["agent_core", "agent_host", "backends", "http_edge", "model_client", "tool_host", "tool"];

/// From now on everything is logged to `stream`, panics included. Fails when it was called before.
///
/// A service logs to [`std::io::stdout`]: its log is all it has to print, and platforms collect it there. A
/// command logs to [`std::io::stderr`], because standard output is for its result.
pub fn install<S>(log: &Log, stream: fn() -> S) -> Result<(), TryInitError>
where
    S: io::Write + IsTerminal + 'static,
{
    subscriber(log, stream, stream().is_terminal()).try_init()?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Writes entries to `writer`, each in one write, so that those of several processes can share a pipe.
/// `ansi` colours those that are text.
pub fn subscriber<W>(log: &Log, writer: W, ansi: bool) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = match log.format {
        LogFormat::Json => JsonLines::new(writer).boxed(),
        LogFormat::Text => tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(writer).boxed(),
    };
    Registry::default().with(layer.with_filter(filter(log.level)))
}

fn filter(level: LogLevel) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let level = match level {
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Info => Level::INFO,
        LogLevel::Warn => Level::WARN,
        LogLevel::Error => Level::ERROR,
    };
    let hint = LevelFilter::from_level(level.max(Level::INFO));
    FilterFn::new(move |entry| is_wanted(entry, level)).with_max_level_hint(hint)
}

/// `Level` orders by verbosity: errors are the least.
fn is_wanted(entry: &Metadata<'_>, level: Level) -> bool {
    let origin = entry.target().split("::").next().unwrap_or_default();
    let limit = match (OURS.contains(&origin), entry.is_span()) {
        // A span is no entry but what entries are said about: an error must bear its request id whatever the
        // level is.
        (true, true) => level.max(Level::INFO),
        (true, false) => level,
        (false, _) => level.min(Level::WARN),
    };
    *entry.level() <= limit
}

/// The hook for panics. It replaces the one that prints to standard error, so a panic is logged once.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("with something that is no text");
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(location, task = tasks::current(), backtrace, "panicked: {message}");
}

#[cfg(test)]
mod tests;
