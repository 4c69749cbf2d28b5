//! The log and the traces of the process: which entries are written, in which form, and where spans go.
//!
//! - `json_lines`, `text_lines`: the two forms of a log entry.
//! - `non_blocking`: the queue between the log and its reader.
//! - `spans`: samples and encodes spans. `otlp`: how they are encoded. [`export`]: the queue between them and
//!   the collector.
//!
//! What does not belong here: what is worth logging. That is for the layer that answers a failure to say.

pub mod export;
mod json_lines;
mod non_blocking;
mod otlp;
mod spans;
mod text_lines;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::trace;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::config::{self, Log, LogFormat, LogLevel};
use crate::tasks;
use export::{Exporter, SpanCounts};
use json_lines::JsonLines;
use non_blocking::NonBlocking;
use spans::SpanRecorder;
use text_lines::TextLines;

/// Our own crates, and `tool` for what the tools themselves log, as they stand in an entry's target.
/// `LOG_LEVEL` is about these; of all others only warnings and errors are of interest to an operator.
const OURS: [&str; 20] = [
    "agent_core",
    "agent_host",
    "backends",
    "host_setup",
    "http_edge",
    "json_schema",
    "mcp_client",
    "mcp_server",
    "model_client",
    "openai_edge",
    "outbound",
    "redis_stores",
    "run_service",
    "tool_egress",
    "tool_grants",
    "tool_host",
    "tool_policy",
    "tool_registry",
    "tool_versions",
    "tool",
];

/// Crates that log as failures what clients do: they leave, or send nonsense. That is answered where it
/// happens, and the line of the request or call says so.
const QUIET: [&str; 1] = ["rmcp"];

/// How long the end of the process waits for a reader of the log.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The queue of the process's log, once [`install`] has made one.
static QUEUE: OnceLock<NonBlocking> = OnceLock::new();

/// What becomes of the process's spans, once [`install`] has begun to record them.
static SPANS: OnceLock<Arc<SpanCounts>> = OnceLock::new();

/// Where the log goes, and what happens when its reader stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, through a bounded queue and a thread of its own: a reader that stalls costs entries,
    /// and the service goes on. A service's log is all it has to print, and platforms collect it there.
    Service,
    /// Standard output, written at once: the platform freezes the process between two requests, and what
    /// waits then is lost.
    Function,
    /// Standard error, written at once: standard output is for the command's result.
    Command,
}

/// From now on everything is logged to `destination`, panics included, and spans are recorded if `tracing` is
/// given: then the exporter is returned, which has to be run. Fails when it was called before.
pub fn install(
    log: &Log,
    destination: Destination,
    tracing: Option<&config::Tracing>,
) -> anyhow::Result<Option<Exporter>> {
    match destination {
        Destination::Service => {
            // A descriptor of the queue's own: the lock of `io::stdout` would be held for as long as the
            // reader stalls.
            let stream = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            let queue = NonBlocking::start(stream, non_blocking::CAPACITY, report_drops)?;
            let queue = QUEUE.get_or_init(|| queue).clone();
            subscriber(log, queue, io::stdout().is_terminal()).try_init()?;
        }
        Destination::Function => subscriber(log, io::stdout, false).try_init()?,
        Destination::Command => {
            subscriber(log, io::stderr, io::stderr().is_terminal()).try_init()?;
        }
    }
    std::panic::set_hook(Box::new(log_panic));
    let Some(tracing) = tracing else { return Ok(None) };
    let (queue, exporter) = export::new(tracing)?;
    trace::capture_content(tracing.capture_content);
    trace::record_with(Box::new(SpanRecorder::new(tracing.sampling, queue)));
    let _only_once = SPANS.set(exporter.counts());
    Ok(Some(exporter))
}

/// What became of the spans that were recorded; absent when none are.
pub fn span_counts() -> Option<&'static SpanCounts> {
    SPANS.get().map(|counts| &**counts)
}

/// Waits until the log is written, for a short while at most: to be called before the process ends.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_LIMIT);
    }
}

/// How many entries were dropped because the reader of the log stalled or was gone.
pub fn dropped_lines() -> u64 {
    QUEUE.get().map_or(0, NonBlocking::dropped)
}

fn report_drops(count: u64) {
    tracing::warn!(dropped = count, "{count} log lines were dropped: the reader of the log was too slow");
}

/// Writes entries to `writer`, each in one write, so that those of several processes can share a pipe.
/// `ansi` colours those that are text.
fn subscriber<W>(log: &Log, writer: W, ansi: bool) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let level = level(log.level);
    let entries = match log.format {
        LogFormat::Json => JsonLines::new(writer).boxed(),
        LogFormat::Text => {
            let layer = tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(writer);
            layer.event_format(TextLines::new(ansi)).boxed()
        }
    };
    // One filter for all: a layer with a filter of its own looks a span up whenever it is entered or left,
    // which is at every poll of a request.
    let wanted = FilterFn::new(move |entry| is_wanted(entry, level));
    let most = LevelFilter::from_level(level.max(Level::INFO));
    Registry::default().with(entries).with(wanted.with_max_level_hint(most))
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Info => Level::INFO,
        LogLevel::Warn => Level::WARN,
        LogLevel::Error => Level::ERROR,
    }
}

/// `Level` orders by verbosity: errors are the least.
fn is_wanted(entry: &Metadata<'_>, level: Level) -> bool {
    let limit = match (is_ours(entry), entry.is_span()) {
        // A span is no entry but what entries are said about: an error must bear its request id whatever the
        // level is.
        (true, true) => level.max(Level::INFO),
        (true, false) => level,
        (false, _) if is_of(entry, &QUIET) => return false,
        (false, _) => level.min(Level::WARN),
    };
    *entry.level() <= limit
}

fn is_ours(entry: &Metadata<'_>) -> bool {
    is_of(entry, &OURS)
}

fn is_of(entry: &Metadata<'_>, crates: &[&str]) -> bool {
    crates.contains(&entry.target().split("::").next().unwrap_or_default())
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
