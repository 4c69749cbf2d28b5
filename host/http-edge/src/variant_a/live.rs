//! `GET /health/live`: the process answers. It consults nothing (interface, Variant A, rule 3) and says so
//! during a shutdown as well, so that an orchestrator lets running requests finish.

use axum::Extension;
use axum::response::IntoResponse;
use http::StatusCode;

use crate::answer::{self, RoutineAnswer};

pub(super) async fn report_liveness() -> impl IntoResponse {
    (Extension(RoutineAnswer), answer::json_bytes(StatusCode::OK, r#"{"status":"ok"}"#))
}
