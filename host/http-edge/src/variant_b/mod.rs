//! Variant B, the API with tokens, rate limits, jobs and a cache: its routes, one file each, and its error
//! table.
//!
//! What surrounds the routes under `/api/` is written down in `api_stack`: `rate_limit` counts each request
//! and writes the headers about it, `auth` verifies the token. The order
//! (host/docs/interface/decisions-http.md#order-of-checks) is: the address's window, the token, the user's
//! window, the body.
//!
//! `admin` is what administrators do with the tools: routes of its own under `/admin/`, in the same stack.
//!
//! `mcp_over_http` is the tools for clients of another protocol, at `/mcp`, in the same stack.
//!
//! `documented` says which errors routes have in common, `bodies` and `parameters` what a request says, and
//! `asking` what the agent is asked for it. What both variants need is not in here.

mod admin;
mod agent;
mod agent_response;
pub mod api_stack;
pub mod asking;
pub mod auth;
pub mod bodies;
mod cache;
pub mod conversations;
pub mod documented;
pub mod error;
pub mod events;
mod gateway;
mod health;
mod if_match;
mod job_accepted;
mod jobs;
#[cfg(feature = "mcp")]
mod mcp_over_http;
pub mod parameters;
pub mod rate_limit;
mod ready;
mod serverless;
pub mod state;
pub mod submit;
mod timestamp;
mod to_the_end;
mod wait_body;
mod waits;
mod webhooks;

use axum::Router;

use crate::middleware::refusals::Rules;
use crate::openapi::{Described, Routes};
use crate::pages::fallback;
use state::Shared;

pub(crate) use admin::api as admin;
#[cfg(feature = "mcp")]
pub(crate) use mcp_over_http::api as mcp;
pub use wait_body::wait_json;
pub use webhooks::webhook_message;

/// The routes beside the API.
pub(crate) fn routes() -> Routes<Shared> {
    Routes::new().get("/health", health::report_health, health::describe).get(
        "/ready",
        ready::report_readiness,
        ready::describe,
    )
}

/// Everything under `/api/`, to be nested there.
pub(crate) fn api(state: &Shared, rules: Rules) -> (Router, Vec<Described>) {
    let (asked, mut described) = routes_beside_their_count().split();
    let (others, of_others) = other_routes(state.variant.cluster.is_some()).split();
    described.extend(of_others);
    // Both fallbacks come after the authentication, so that they answer whoever asks.
    let routes = api_stack::authenticate_beside(asked, state, error::render)
        .merge(api_stack::authenticate(others, state, error::render))
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    let described = described.into_iter().map(api_stack::describe).collect();
    let router = api_stack::surround(routes, state, rules, error::render);
    (router.with_state(state.clone()), described)
}

/// Routes that wait for the count of their request before they begin anything, and such as only read.
fn routes_beside_their_count() -> Routes<Shared> {
    Routes::new()
        .post("/agent", agent::invoke_agent, agent::describe)
        .get("/agent/jobs", jobs::list_jobs, jobs::describe_list)
        .get("/agent/jobs/{job_id}", jobs::read_job, jobs::describe_job)
}

fn other_routes(has_cluster: bool) -> Routes<Shared> {
    Routes::new()
        .post("/agent/async", submit::submit_job, submit::describe)
        .post("/agent/jobs/{job_id}/cancel", jobs::cancel_job, jobs::describe_cancel)
        .get("/agent/jobs/{job_id}/webhook", webhooks::read_webhook, webhooks::describe_read)
        .post("/agent/jobs/{job_id}/webhook/replay", webhooks::replay_webhook, webhooks::describe_replay)
        .get("/agent/jobs/{job_id}/events", events::follow_job, events::describe_job)
        .get("/agent/waits", waits::list_waits, waits::describe_list)
        .get("/agent/waits/{wait_id}", waits::read_wait, waits::describe_one)
        .post("/agent/waits/{wait_id}/decision", waits::decide_wait, waits::describe_decide)
        .post("/agent/events/{name}", waits::deliver_event, waits::describe_event)
        .get("/agent/runs/{run_id}/events", events::follow_run, events::describe_run)
        .post("/agent/runs/{run_id}/cancel", events::cancel_run, events::describe_cancel)
        .get("/agent/conversations", conversations::list_conversations, conversations::describe_list)
        .get(
            "/agent/conversations/{conversation_id}",
            conversations::read_conversation,
            conversations::describe_one,
        )
        .delete(
            "/agent/conversations/{conversation_id}",
            conversations::delete_conversation,
            conversations::describe_delete,
        )
        .delete("/agent/cache", cache::invalidate, cache::describe)
        .post("/serverless", serverless::handle_event, serverless::describe)
        .post("/gateway", gateway::route_by_priority, move || gateway::describe(has_cluster))
}
