//! `GET /health`: whether everything that the service depends on works.

use std::time::{Duration, SystemTime};

use agent_core::health::{Check, check_all};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Serialize, Serializer};

use super::state::Shared;
use super::timestamp::iso_8601;
use crate::answer::{self, Failure, RoutineAnswer};
use crate::health_log::Unhealthy;

pub(super) async fn report_health(State(edge): State<Shared>) -> impl IntoResponse {
    let variant = &edge.variant;
    let probes = [&variant.database, &variant.key_value, &variant.llm].map(Clone::clone);
    let checks = check_all(&probes, edge.settings.probe_time_limit).await;
    let healthy = checks.iter().all(|check| check.outcome.is_ok());
    let report = Report {
        status: if healthy { "healthy" } else { "unhealthy" },
        timestamp: iso_8601(SystemTime::now()),
        uptime: edge.began.elapsed().as_secs_f64(),
        checks: Checks(&["database", "redis", "llm"], &checks),
    };
    (Extension(RoutineAnswer), answer(healthy, &report, &checks))
}

/// 200, or 503 with the same report and the reasons for the log.
pub(super) fn answer<T: Serialize>(passed: bool, report: &T, checks: &[Check]) -> Response {
    if passed {
        return answer::json(StatusCode::OK, report);
    }
    let mut response = answer::json(StatusCode::SERVICE_UNAVAILABLE, report);
    response.extensions_mut().insert(Failure::new(Unhealthy::because_of(checks)));
    response
}

/// Interface, "Health report (Variant B, `/health`)".
#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    timestamp: String,
    uptime: f64,
    checks: Checks<'a>,
}

/// Checks under the names that clients know them by.
pub(super) struct Checks<'a>(pub(super) &'static [&'static str], pub(super) &'a [Check]);

impl Serialize for Checks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1.iter().map(CheckResult::from)))
    }
}

/// What a check came to. Why it failed is not for everybody: the log has it.
#[derive(Serialize)]
struct CheckResult {
    status: &'static str,
    /// In milliseconds, when the check succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<f64>,
}

impl From<&Check> for CheckResult {
    fn from(check: &Check) -> Self {
        let in_milliseconds = |latency: &Duration| latency.as_micros() as f64 / 1000.0;
        match &check.outcome {
            Ok(latency) => Self { status: "ok", latency: Some(in_milliseconds(latency)) },
            Err(_) => Self { status: "error", latency: None },
        }
    }
}
