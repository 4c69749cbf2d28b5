//! What an operator sees of the service: its log, its metrics, its traces.

use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{one_of, settings, special};
use super::tracing::Tracing;

settings! {
    /// The least serious entries that are logged.
    LOG_LEVEL = one_of(&["debug", "info", "warn", "error"]).or("info");
    /// Stands before the names of the default process metrics.
    METRICS_PREFIX = special("letters, digits, _ and :, not beginning with a digit").or("agent_");
}

/// What an operator sees of the service.
#[derive(Debug, Clone)]
pub struct Observe {
    /// The log.
    pub log: Log,
    /// Stands before the names of the default process metrics (`METRICS_PREFIX`).
    pub metrics_prefix: String,
    /// The export of traces, if there is any.
    pub tracing: Option<Tracing>,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The least serious entries that are logged (`LOG_LEVEL`).
    pub level: LogLevel,
    /// Follows from `NODE_ENV`.
    pub format: LogFormat,
}

/// How serious an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For whoever looks for a mistake.
    Debug,
    /// What happened.
    Info,
    /// What should not have happened and could be dealt with.
    Warn,
    /// What failed.
    Error,
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object, for machines.
    Json,
    /// For people.
    Text,
}

impl Observe {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let level = reader.value(&LOG_LEVEL, LogLevel::parse);
        let metrics_prefix = reader.value(&METRICS_PREFIX, parse_prefix);
        let tracing = Tracing::read(reader);
        let format = if reader.is_production() { LogFormat::Json } else { LogFormat::Text };
        Ok(Self { log: Log { level: level?, format }, metrics_prefix: metrics_prefix?, tracing: tracing? })
    }
}

impl Log {
    /// Reads nothing but the level, for commands that a person runs at a terminal.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, |reader| {
            let level = reader.value(&LOG_LEVEL, LogLevel::parse)?;
            Ok(Self { level, format: LogFormat::Text })
        })
    }
}

impl LogLevel {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

/// The beginning of a metric name (Prometheus data model).
fn parse_prefix(text: &str) -> Option<String> {
    let may_begin = |first: char| first.is_ascii_alphabetic() || first == '_' || first == ':';
    let may_follow = |other: char| may_begin(other) || other.is_ascii_digit();
    (text.starts_with(may_begin) && text.chars().all(may_follow)).then(|| text.to_owned())
}
