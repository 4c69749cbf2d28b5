//! `GET /ready`: whether requests should come here.

use std::sync::atomic::Ordering;

use agent_core::ports::StoreWarning;
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use run_service::health::check_all;
use serde::Serialize;
use utoipa::ToSchema;

use super::health::{CheckResult, Checks};
use super::state::Shared;
use crate::answer::RoutineAnswer;
use crate::answer::health_log::answer;
use crate::openapi::{Operation, tags};
use crate::readiness::ToolsReport;

pub(super) fn describe() -> Operation {
    Operation::new("reportInitialized", tags::HEALTH, "Whether requests should be sent here")
        .answers::<Report<'static>>(StatusCode::OK, "They should")
        .answers::<Report<'static>>(StatusCode::SERVICE_UNAVAILABLE, "They should not")
}

/// Whether requests should be sent here (host/docs/interface/endpoints.md#readiness-of-variant-b).
#[derive(Serialize, ToSchema)]
#[schema(as = InitializedReport)]
struct Report<'a> {
    /// Whether the stores and the tools are prepared and the service is not going away.
    #[schema(example = true)]
    initialized: bool,
    /// `database` and `cache`.
    #[serde(flatten)]
    #[schema(value_type = ReadyChecks)]
    checks: Checks<'a>,
    /// Background tasks that broke off and do not run again yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["jobs"]))]
    tasks: Vec<&'static str>,
    /// Settings of the stores under which the service promises less.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<StoreWarning>,
    /// Files that do not serve, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tools: Option<ToolsReport>,
}

/// The checks of the report, by name.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document of what `Checks` writes: names that it is given")]
struct ReadyChecks {
    /// A trivial query.
    database: CheckResult,
    /// A ping.
    cache: CheckResult,
}

/// `initialized` is true from when the stores and the tools are prepared, which is usually before the first
/// request, until the shutdown begins (host/docs/interface/decisions-http.md#shutdown).
pub(super) async fn report_readiness(State(edge): State<Shared>) -> impl IntoResponse {
    let probes = [edge.variant.database.clone(), edge.variant.key_value.clone()];
    let mut checks = check_all(&probes, edge.settings.probe_time_limit).await;
    let preparing = edge.variant.toolbox.preparing();
    let prevented = edge.readiness.is_shutting_down() || preparing.first;
    // The database's check says so where its tables are missing.
    let initialized = !prevented && edge.variant.prepared.load(Ordering::Acquire);
    checks.extend(edge.readiness.refusals(&preparing));
    let ready = checks.iter().all(|check| check.outcome.is_ok());
    let report = Report {
        initialized,
        checks: Checks(&["database", "cache"], &checks),
        tasks: edge.readiness.tasks_down(),
        stores: edge.readiness.store_warnings(),
        tools: ToolsReport::of(&*edge.variant.toolbox),
    };
    (Extension(RoutineAnswer), answer(ready, &report, &checks))
}
