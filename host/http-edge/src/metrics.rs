//! `GET /metrics` of every variant. Which metrics there are is decided by whoever renders them.

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::answer::RoutineAnswer;
use crate::dependencies::RenderMetrics;
use crate::openapi::{Operation, tags};

/// As `prom-client` reports it (wire 1.5); the Rust registry's own constant lacks the charset.
const EXPOSITION_FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) fn describe() -> Operation {
    Operation::new("readMetrics", tags::SERVICE, "Metrics for Prometheus")
        .answers_text("text/plain", "All metrics in the text exposition format 0.0.4")
}

pub(crate) async fn show_metrics(State(render): State<RenderMetrics>) -> impl IntoResponse {
    (Extension(RoutineAnswer), [(CONTENT_TYPE, EXPOSITION_FORMAT)], render())
}
