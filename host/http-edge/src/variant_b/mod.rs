//! Variant B: its routes, one file each, and its error table.
//!
//! What stands before every route under `/api/` is in three files: `gate` counts each request and writes the
//! headers about it, `caller` finds out who is calling, `windows` says how often one may. Their order is that
//! of the decisions: IP window, token, user window, body.
//!
//! `issue`, `schema` and `parameters` say what a valid request is. What both variants need is not in here.

mod agent;
mod cache;
mod caller;
mod error;
mod gate;
mod gateway;
mod health;
mod issue;
mod jobs;
mod parameters;
mod ready;
mod schema;
mod serverless;
mod submit;
mod timestamp;
mod windows;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};

use crate::edge::{Served, VariantB};

pub(crate) use gate::{Gate, Gated};

/// The state of the handlers.
type Shared = Arc<Served<VariantB>>;

/// Everything under `/api/` takes a `Caller` as an argument, which is what asks for a token.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/health", get(health::report_health))
        .route("/ready", get(ready::report_readiness))
        .route("/api/agent", post(agent::invoke_agent))
        .route("/api/agent/async", post(submit::submit_job))
        .route("/api/agent/jobs", get(jobs::list_jobs))
        .route("/api/agent/jobs/{job_id}", get(jobs::read_job))
        .route("/api/agent/jobs/{job_id}/cancel", post(jobs::cancel_job))
        .route("/api/agent/cache", delete(cache::invalidate))
        .route("/api/serverless", post(serverless::handle_event))
        .route("/api/gateway", post(gateway::route_by_priority))
}
