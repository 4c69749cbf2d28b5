//! The log of a command that makes many calls on purpose: kept for the report instead of printed, the last
//! lines of it.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::Context as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

/// Most lines that are kept, and most bytes of each.
const MOST_LINES: usize = 50;
const MOST_BYTES: usize = 2 << 10;

/// Warnings and errors of the host and its tools since they were taken last.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogTail(Arc<Mutex<VecDeque<String>>>);

impl LogTail {
    /// From now on the log of the process goes here.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let tail = Self::default();
        Registry::default().with(tail.clone()).try_init().context("keeping the log")?;
        Ok(tail)
    }

    /// What was logged, and forgets it.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.lock().drain(..).collect()
    }
}

impl<S: Subscriber> Layer<S> for LogTail {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        if !target.starts_with("tool") || level > Level::INFO {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, fields } = line;
        if level == Level::INFO {
            // The one thing that takes seconds.
            if message == "compiling" {
                // silent-ok: progress is worth no failure.
                let _ = writeln!(io::stderr(), "agent-tool: compiling{fields}");
            }
            return;
        }
        let mut text = message + &fields;
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        let mut lines = self.0.lock();
        if lines.len() >= MOST_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

/// An event as text.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            // Whoever reads it knows what was called.
            "request_id" | "component" | "tool" => Ok(()),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
