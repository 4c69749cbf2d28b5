//! Variant A, the plain agent without users: its routes, one file each, and its error table. What both variants need is
//! not in here.

mod error;
mod input;
mod invoke;
mod live;
mod ready;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::dependencies::{RouteState, VariantA};

pub(crate) fn routes() -> Router<Arc<RouteState<VariantA>>> {
    Router::new()
        .route("/agent/invoke", post(invoke::invoke_agent))
        .route("/health/live", get(live::report_liveness))
        .route("/health/ready", get(ready::report_readiness))
}
