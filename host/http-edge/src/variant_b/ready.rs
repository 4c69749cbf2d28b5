//! `GET /ready`: whether requests should come here.

use std::sync::atomic::Ordering;

use agent_core::health::{Check, check_all};
use agent_core::ports::ProbeError;
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;

use super::health::{Checks, answer};
use super::state::Shared;
use crate::answer::RoutineAnswer;
use crate::readiness::{ToolsReport, not_prepared};

/// Interface, "Readiness report (Variant B, `/ready`)".
#[derive(Serialize)]
struct Report<'a> {
    initialized: bool,
    /// `database` and `cache`.
    #[serde(flatten)]
    checks: Checks<'a>,
    /// Background tasks that broke off and do not run again yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<ToolsReport>,
}

/// `initialized` is true from when the stores and the tools are prepared, which is usually before the first request,
/// until the shutdown begins (decisions, "Shutdown": readiness turns 503 at once).
pub(super) async fn report_readiness(State(edge): State<Shared>) -> impl IntoResponse {
    let probes = [edge.variant.database.clone(), edge.variant.key_value.clone()];
    let mut checks = check_all(&probes, edge.settings.probe_time_limit).await;
    let preparing = edge.variant.toolbox.preparing();
    let missing = if edge.readiness.is_shutting_down() {
        Some(("shutdown", ProbeError("the service is shutting down".into())))
    } else if !edge.variant.prepared.load(Ordering::Acquire) {
        Some(("tables", ProbeError("the database is not prepared yet".into())))
    } else if preparing.first {
        Some(("tools", not_prepared(&preparing)))
    } else {
        None
    };
    let initialized = missing.is_none();
    checks.extend(missing.map(|(name, why)| Check { name, outcome: Err(why) }));
    let tasks = edge.readiness.tasks_down();
    if !tasks.is_empty() {
        let outcome = Err(ProbeError(format!("begun anew after a failure: {}", tasks.join(", "))));
        checks.push(Check { name: "tasks", outcome });
    }
    let ready = checks.iter().all(|check| check.outcome.is_ok());
    let report = Report {
        initialized,
        checks: Checks(&["database", "cache"], &checks),
        tasks,
        tools: ToolsReport::of(&*edge.variant.toolbox),
    };
    (Extension(RoutineAnswer), answer(ready, &report, &checks))
}
