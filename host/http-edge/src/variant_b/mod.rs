//! Variant B, the API with tokens, rate limits, jobs and a cache: its routes, one file each, and its error table.
//!
//! What surrounds the routes under `/api/` is written down in `api_stack`: `rate_limit` counts each request and writes
//! the headers about it, `auth` verifies the token. The order is that of the decisions: the address's window, the token,
//! the user's window, the body.
//!
//! `validation_issue`, `schema` and `parameters` say what a valid request is. What both variants need is not in here.

mod agent;
mod api_stack;
mod auth;
mod cache;
mod error;
mod gateway;
mod health;
mod jobs;
mod parameters;
mod rate_limit;
mod ready;
mod schema;
mod serverless;
mod state;
mod submit;
mod timestamp;
mod validation_issue;

use axum::Router;
use axum::routing::{delete, get, post};

use crate::fallback;
use crate::middleware::refusals::Rules;
use state::Shared;

/// The routes beside the API.
pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/health", get(health::report_health)).route("/ready", get(ready::report_readiness))
}

/// Everything under `/api/`, to be nested there.
pub(crate) fn api(state: &Shared, rules: Rules) -> Router {
    let routes = Router::new()
        .route("/agent", post(agent::invoke_agent))
        .route("/agent/async", post(submit::submit_job))
        .route("/agent/jobs", get(jobs::list_jobs))
        .route("/agent/jobs/{job_id}", get(jobs::read_job))
        .route("/agent/jobs/{job_id}/cancel", post(jobs::cancel_job))
        .route("/agent/cache", delete(cache::invalidate))
        .route("/serverless", post(serverless::handle_event))
        .route("/gateway", post(gateway::route_by_priority));
    // These two come after the authentication, so that they answer whoever asks.
    let routes = api_stack::authenticate(routes, state)
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    api_stack::surround(routes, state, rules).with_state(state.clone())
}
