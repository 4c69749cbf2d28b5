//! How health reports are answered, and what the log learns of one with a failed check in it. What clients
//! see is each variant's own.

use axum::response::Response;
use http::StatusCode;
use run_service::health::Check;
use serde::Serialize;

use crate::answer::{self, Failure};

/// 200, or 503 with the same report and the reasons for the log.
pub(crate) fn answer<T: Serialize>(passed: bool, report: &T, checks: &[Check]) -> Response {
    if passed {
        return answer::json(StatusCode::OK, report);
    }
    let mut response = answer::json(StatusCode::SERVICE_UNAVAILABLE, report);
    response.extensions_mut().insert(Failure::new(Unhealthy::because_of(checks)));
    response
}

/// Which checks failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("not ready: {0}")]
struct Unhealthy(String);

impl Unhealthy {
    fn because_of(checks: &[Check]) -> Self {
        let reasons: Vec<_> = checks
            .iter()
            .filter_map(|check| check.outcome.as_ref().err().map(|error| format!("{}: {error}", check.name)))
            .collect();
        Self(reasons.join("; "))
    }
}
