//! What an operator sees of the service: its log, its metrics, its traces.

use super::log::Log;
use super::reader::{Reader, Reported};
use super::setting::{settings, special};
use super::tracing::Tracing;

settings! {
    /// Stands before the names of the default process metrics.
    METRICS_PREFIX = special("letters, digits, _ and :, not beginning with a digit").or("agent_");
}

/// What an operator sees of the service.
#[derive(Debug, Clone)]
pub struct Observe {
    pub log: Log,
    /// Stands before the names of the default process metrics (`METRICS_PREFIX`).
    pub metrics_prefix: String,
    /// The export of traces, if there is any.
    pub tracing: Option<Tracing>,
}

impl Observe {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let log = Log::read(reader);
        let metrics_prefix = reader.value(&METRICS_PREFIX, parse_prefix);
        let tracing = Tracing::read(reader);
        Ok(Self { log: log?, metrics_prefix: metrics_prefix?, tracing: tracing? })
    }
}

/// The beginning of a metric name (Prometheus data model).
fn parse_prefix(text: &str) -> Option<String> {
    let may_begin = |first: char| first.is_ascii_alphabetic() || first == '_' || first == ':';
    let may_follow = |other: char| may_begin(other) || other.is_ascii_digit();
    (text.starts_with(may_begin) && text.chars().all(may_follow)).then(|| text.to_owned())
}
