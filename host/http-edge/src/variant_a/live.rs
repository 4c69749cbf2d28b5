//! `GET /health/live`: the process answers. It consults nothing (host/docs/interface/endpoints.md#variant-a)
//! and says so during a shutdown as well, so that an orchestrator lets running requests finish.

use axum::Extension;
use axum::response::IntoResponse;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::{self, RoutineAnswer};
use crate::openapi::{Operation, tags};

/// That the process answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Liveness)]
struct Report {
    /// Always the same.
    #[schema(example = "ok")]
    status: &'static str,
}

pub(super) fn describe() -> Operation {
    Operation::new("reportLiveness", tags::HEALTH, "Whether the process answers")
        .answers::<Report>(StatusCode::OK, "It does")
}

pub(super) async fn report_liveness() -> impl IntoResponse {
    (Extension(RoutineAnswer), answer::json(StatusCode::OK, &Report { status: "ok" }))
}
