//! `GET /health/ready`: whether requests should come here.

use std::sync::Arc;

use agent_core::health::{Check, check_all};
use agent_core::ports::ProbeError;
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use serde::{Serialize, Serializer};

use crate::answer::{self, Failure, RoutineAnswer};
use crate::dependencies::{RouteState, VariantA};
use crate::health_log::Unhealthy;
use crate::readiness::{ToolsReport, not_prepared};

pub(super) async fn report_readiness(State(edge): State<Arc<RouteState<VariantA>>>) -> impl IntoResponse {
    let mut checks = check_all(&edge.variant.probes, edge.settings.probe_time_limit).await;
    if edge.readiness.is_shutting_down() {
        let outcome = Err(ProbeError("the service is shutting down".into()));
        checks.push(Check { name: "shutdown", outcome });
    }
    let down = edge.readiness.tasks_down();
    if !down.is_empty() {
        let outcome = Err(ProbeError(format!("begun anew after a failure: {}", down.join(", "))));
        checks.push(Check { name: "tasks", outcome });
    }
    let preparing = edge.variant.toolbox.preparing();
    if preparing.first {
        checks.push(Check { name: "tools", outcome: Err(not_prepared(&preparing)) });
    }
    let report = Report::new(&checks, ToolsReport::of(&*edge.variant.toolbox));
    let status = if report.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = answer::json(status, &report);
    if !report.healthy {
        response.extensions_mut().insert(Failure::new(Unhealthy::because_of(&checks)));
    }
    (Extension(RoutineAnswer), response)
}

/// The report of the interface, "Readiness and health report (Variant A)", and one field more when there is
/// something to say in it.
#[derive(Serialize)]
struct Report<'a> {
    healthy: bool,
    status: &'static str,
    #[serde(serialize_with = "as_map")]
    checks: &'a [Check],
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<ToolsReport>,
}

impl<'a> Report<'a> {
    fn new(checks: &'a [Check], tools: Option<ToolsReport>) -> Self {
        // "healthy is true exactly when no check has failed" (interface, States).
        let healthy = checks.iter().all(|check| check.outcome.is_ok());
        Self { healthy, status: if healthy { "healthy" } else { "unhealthy" }, checks, tools }
    }
}

/// A check's result as clients see it: untagged, because the two shapes have nothing but `healthy` in common.
#[derive(Serialize)]
#[serde(untagged)]
enum CheckResult<'a> {
    Passed { healthy: bool, status: &'static str },
    Failed { healthy: bool, error: &'a str },
}

fn as_map<S: Serializer>(checks: &[Check], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(checks.iter().map(|check| {
        let result = match &check.outcome {
            Ok(_latency) => CheckResult::Passed { healthy: true, status: "healthy" },
            Err(ProbeError(error)) => CheckResult::Failed { healthy: false, error },
        };
        (check.name, result)
    }))
}
