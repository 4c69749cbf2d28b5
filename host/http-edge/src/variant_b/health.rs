//! `GET /health`: whether everything that the service depends on works.

use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use run_service::health::{Check, check_all};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::state::Shared;
use super::timestamp::iso_8601;
use crate::answer::RoutineAnswer;
use crate::answer::health_log::answer;
use crate::openapi::{Operation, tags};

pub(super) fn describe() -> Operation {
    Operation::new("reportHealth", tags::HEALTH, "Whether everything that the service depends on works")
        .about("The model is asked at most once per `LLM_HEALTH_TTL_MS`.")
        .answers::<Report<'static>>(StatusCode::OK, "Everything does")
        .answers::<Report<'static>>(StatusCode::SERVICE_UNAVAILABLE, "Something does not")
}

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

/// Whether everything that the service depends on works
/// (host/docs/interface/endpoints.md#health-of-variant-b).
#[derive(Serialize, ToSchema)]
#[schema(as = HealthReport)]
struct Report<'a> {
    /// `healthy`, or `unhealthy` when a check failed.
    #[schema(example = "healthy")]
    status: &'static str,
    /// When the report was made.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    timestamp: String,
    /// Seconds since the process began.
    #[schema(minimum = 0, example = 86_400.5)]
    uptime: f64,
    /// What each check came to.
    #[schema(value_type = HealthChecks)]
    checks: Checks<'a>,
}

/// The checks of the report, by name.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document of what `Checks` writes: names that it is given")]
struct HealthChecks {
    /// A trivial query.
    database: CheckResult,
    /// A ping.
    redis: CheckResult,
    /// A short message.
    llm: CheckResult,
}

/// Checks under the names that clients know them by.
pub(super) struct Checks<'a>(pub(super) &'static [&'static str], pub(super) &'a [Check]);

impl Serialize for Checks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1.iter().map(CheckResult::from)))
    }
}

/// What a check came to. Why it failed is not for everybody: the log has it.
#[derive(Serialize, ToSchema)]
pub(super) struct CheckResult {
    /// `ok` or `error`.
    #[schema(example = "ok")]
    status: &'static str,
    /// In milliseconds, when the check succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, example = 1.25)]
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
