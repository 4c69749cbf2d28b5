//! The admin API: what operators see of the tools and do with them while they serve, everybody's runs and
//! jobs, and how the service is, under `/admin/`, for tokens with the role `admin`. The console
//! (`pages/console/`) is a page on top of it.
//!
//! - `runs`, `run_body`: runs and what they did. `jobs`: the queue. `listing`: the parameters of both.
//!   `status`: how the service is.
//! - `show`: what is asked of the tools. `upload`: proposing a version. `actions`: everything else that
//!   changes something.
//! - `change`: what every request that changes something says before its body, `If-Match` included.
//!   `action_body`: what stands in its body. `component_name`: which component.
//! - `component_body`: a component as operators read it.
//! - `audit`: the log line of every request that changes something, or was to.
//! - `documented`: what the routes have in common, for the document.
//! - `state`: what handlers share. What is refused here, before the tools are asked, is in
//!   `error/admin_refusal.rs`.
//!
//! What is done with the tools is behind the port `ToolAdmin`. It stands in the stack of `/api/`
//! (`api_stack.rs`): same rate windows, same authentication, same error table.

mod action_body;
mod actions;
mod audit;
mod change;
mod component_body;
mod component_name;
mod digest;
mod documented;
mod jobs;
mod listing;
mod run_body;
mod runs;
mod show;
mod state;
mod status;
mod upload;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use tower::layer::layer_fn;

use super::state as variant_b;
use super::{api_stack, auth, error};
use crate::middleware::guard::Guard;
use crate::middleware::refusals::Rules;
use crate::openapi::{Described, Routes};
use crate::pages::fallback;
use actions::VERBS;
use state::Admin;

/// Everything under `/admin/`, to be nested there.
pub(crate) fn api(state: &variant_b::Shared, rules: Rules) -> (Router, Vec<Described>) {
    let (of_service, described) = service_routes().split();
    let mut routes: Router = of_service.with_state(state.clone());
    let mut described: Vec<_> =
        described.into_iter().map(|route| route.map(documented::administrators)).collect();
    if let Some(tools) = &state.variant.tool_admin {
        let (of_tools, of) = tool_routes().split();
        routes = routes.merge(of_tools.with_state(Arc::new(Admin::new(state.settings, tools.clone()))));
        described.extend(of.into_iter().map(|route| route.map(documented::of_tools)));
    }
    let routes = routes
        // Inside of the authentication: it needs the caller, and a role that is missing counts in the
        // caller's window.
        .route_layer(layer_fn(|inner| {
            Guard::new(inner, |request: &mut Request| {
                auth::require_admin(request).err().map(IntoResponse::into_response)
            })
        }));
    let routes = api_stack::authenticate(routes, state, error::render)
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    let router = api_stack::surround(routes, state, rules, error::render)
        // Outermost, so that it has the answer as the client gets it, whoever has given it.
        .layer(from_fn(audit::log_change));
    (router, described.into_iter().map(api_stack::describe).collect())
}

fn service_routes() -> Routes<variant_b::Shared> {
    Routes::new()
        .get("/runs", runs::list, runs::describe_list)
        .get("/runs/{run_id}", runs::timeline, runs::describe_timeline)
        .get("/runs/{run_id}/events", runs::follow, runs::describe_events)
        .post("/runs/{run_id}/cancel", runs::cancel, runs::describe_cancel)
        .get("/queue", jobs::depth, jobs::describe_depth)
        .get("/jobs", jobs::list, jobs::describe_list)
        .get("/jobs/{job_id}", jobs::read, jobs::describe_job)
        .post("/jobs/{job_id}/cancel", jobs::cancel, jobs::describe_cancel)
        .post("/jobs/{job_id}/retry", jobs::retry, jobs::describe_retry)
        .get("/status", status::read, status::describe)
}

fn tool_routes() -> Routes<state::Shared> {
    let routes = Routes::new()
        .get("/tools", show::list, show::describe_list)
        .get("/tools/{name}", show::component, show::describe_component)
        .put("/tools/{name}", upload::propose_version, upload::describe)
        .delete("/tools/{name}", actions::remove_component, actions::describe_removal)
        .get("/tools/{name}/versions", show::versions, show::describe_versions)
        .get("/tools/{name}/diff", show::diff, show::describe_diff)
        .get("/tools/{name}/audit", show::audit, show::describe_audit);
    VERBS.into_iter().fold(routes, |routes, verb| {
        let path = format!("/tools/{{name}}/{}", verb.name);
        routes.method("post", &path, verb.handler(), move || verb.describe())
    })
}
