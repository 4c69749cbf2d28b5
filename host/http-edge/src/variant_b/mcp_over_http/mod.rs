//! `/mcp`: the tools as an MCP server over streamable HTTP, for the tokens and in the windows of `/api/`.
//!
//! - `messages`: `POST`, a message and its answer. `changes`: `GET`, a stream that tells of swaps (before
//!   2026-07-28; since then a message asks for it).
//! - `headers`: what the protocol's headers say. What is refused here is in `error/mcp_refusal.rs`.
//! - `documented`: the routes, for the document. `state`: what handlers share.
//!
//! Nothing is kept between two requests, so any replica answers any of them. A session id is given because
//! clients want one and because request ids are unique within a session only; it opens nothing and is not
//! looked up. There is nothing to terminate either: `DELETE` is a 405, as the protocol has it for such
//! servers.

mod changes;
mod documented;
mod headers;
mod messages;
mod state;

use std::sync::Arc;

use axum::Router;

use super::api_stack::{self, TokenRefusal};
use super::error;
use super::state as variant_b;
use crate::middleware::refusals::Rules;
use crate::openapi::{Described, Routes};
use crate::pages::fallback;
use mcp_server::{CallsUnderWay, PURPOSE, RequestStates};
use state::Mcp;

/// `/mcp`, to be merged with what is beside it.
pub(crate) fn api(state: &variant_b::Shared, rules: Rules) -> (Router, Vec<Described>) {
    let (routes, described) = Routes::new()
        .post("/mcp", messages::send_message, documented::messages)
        .get("/mcp", changes::follow_changes, documented::changes)
        .split();
    let routes = api_stack::authenticate_with(routes, state, TokenRefusal::Unauthorized, error::render)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    // The protocol has reading checked as well.
    let rules = Rules { checks_reads: true, ..rules };
    let states = RequestStates::new(state.variant.tokens.derived_key(PURPOSE));
    let mcp = Mcp { edge: state.clone(), under_way: CallsUnderWay::default(), states };
    let router = api_stack::surround(routes, state, rules, error::render).with_state(Arc::new(mcp));
    let described =
        described.into_iter().map(|route| api_stack::describe_with(route, TokenRefusal::Unauthorized));
    (router, described.collect())
}
