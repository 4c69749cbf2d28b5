//! What the log learns of a health report with a failed check in it. What clients see is each variant's own.

use run_service::health::Check;

/// Which checks failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("not ready: {0}")]
pub(crate) struct Unhealthy(String);

impl Unhealthy {
    pub(crate) fn because_of(checks: &[Check]) -> Self {
        let reasons: Vec<_> = checks
            .iter()
            .filter_map(|check| check.outcome.as_ref().err().map(|error| format!("{}: {error}", check.name)))
            .collect();
        Self(reasons.join("; "))
    }
}
