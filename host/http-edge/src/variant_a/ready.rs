//! `GET /health/ready`: whether requests should come here.

use std::sync::Arc;

use agent_core::ports::{ProbeError, StoreWarning};
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use run_service::health::{Check, check_all};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::answer::RoutineAnswer;
use crate::answer::health_log::answer;
use crate::dependencies::{RouteState, VariantA};
use crate::openapi::{Operation, tags};
use crate::readiness::ToolsReport;

pub(super) fn describe() -> Operation {
    Operation::new("reportReadiness", tags::HEALTH, "Whether requests should be sent here")
        .answers::<Report<'static>>(StatusCode::OK, "Every check passed")
        .answers::<Report<'static>>(
            StatusCode::SERVICE_UNAVAILABLE,
            "A check failed, or the service is going away",
        )
}

pub(super) async fn report_readiness(State(edge): State<Arc<RouteState<VariantA>>>) -> impl IntoResponse {
    let mut checks = check_all(&edge.variant.probes, edge.settings.probe_time_limit).await;
    checks.extend(edge.readiness.refusals(&edge.variant.toolbox.preparing()));
    let stores = edge.readiness.store_warnings();
    let report = Report::new(&checks, stores, ToolsReport::of(&*edge.variant.toolbox));
    (Extension(RoutineAnswer), answer(report.healthy, &report, &checks))
}

/// Whether requests should be sent here, and why not
/// (host/docs/interface/endpoints.md#readiness-of-variant-a), and two fields more when there is something to
/// say in them.
#[derive(Serialize, ToSchema)]
#[schema(as = ReadinessReport)]
struct Report<'a> {
    /// Whether every check passed.
    #[schema(example = true)]
    healthy: bool,
    /// The same as a word: `healthy` or `unhealthy`.
    #[schema(example = "healthy")]
    status: &'static str,
    /// What each check came to, by its name: `llm`, `database`, …
    #[serde(serialize_with = "as_map")]
    #[schema(value_type = std::collections::BTreeMap<String, CheckResult<'static>>)]
    checks: &'a [Check],
    /// Settings of the stores under which the service promises less.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<StoreWarning>,
    /// Files that do not serve, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tools: Option<ToolsReport>,
}

impl<'a> Report<'a> {
    fn new(checks: &'a [Check], stores: Vec<StoreWarning>, tools: Option<ToolsReport>) -> Self {
        // Exactly when no check has failed: host/docs/interface/endpoints.md#readiness-of-variant-a.
        let healthy = checks.iter().all(|check| check.outcome.is_ok());
        Self { healthy, status: if healthy { "healthy" } else { "unhealthy" }, checks, stores, tools }
    }
}

/// What a check came to.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = CheckOutcome)]
enum CheckResult<'a> {
    /// It passed.
    Passed {
        /// True.
        #[schema(example = true)]
        healthy: bool,
        /// `healthy`.
        #[schema(example = "healthy")]
        status: &'static str,
    },
    /// It failed.
    Failed {
        /// False.
        #[schema(example = false)]
        healthy: bool,
        /// Why.
        #[schema(example = "the database does not answer")]
        error: &'a str,
    },
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
