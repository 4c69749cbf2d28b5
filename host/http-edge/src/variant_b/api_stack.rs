//! The middlewares around everything under `/api/`, in the order in which a request meets them:
//!
//! ```text
//! surround      rate_limit::report → error::render → refusals → panic guard
//! authenticate    auth::identify → rate_limit::limit → auth::require → panic guard → handler
//! ```
//!
//! The inner row is around the routes alone. A request that none of them answers (no such path, no such method, refused)
//! needs no token and is counted by `report`, in the address's window only.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::util::{MapRequestLayer, MapResponseLayer};

use super::state::Shared;
use super::{auth, error, rate_limit};
use crate::middleware::guard::Guard;
use crate::middleware::panic_guard;
use crate::middleware::refusals::Rules;

/// Surrounds the routes and what answers when there is none.
pub(super) fn surround(routes: Router<Shared>, state: &Shared, rules: Rules) -> Router<Shared> {
    let production = state.variant.production;
    routes.layer(
        ServiceBuilder::new()
            // Writes the headers of the windows, on every answer.
            .layer(from_fn_with_state(state.clone(), rate_limit::report))
            // Gives errors their bodies.
            .layer(MapResponseLayer::new(move |answer| error::render(answer, production)))
            // Answers what no route is to see. Inside the rate limit, so that it is counted.
            .layer(layer_fn(move |inner| {
                let rules = rules.clone();
                Guard::new(inner, move |request: &mut Request| rules.answer(request))
            }))
            .layer(MapResponseLayer::new(IntoResponse::into_response as fn(_) -> Response))
            // Turns a panic of the middlewares below into an answer.
            .layer(panic_guard::layer()),
    )
}

/// Surrounds the routes that are there by now: their handlers see only requests of an authenticated [`auth::Caller`]
/// within its rate limit. What has to know the caller before the handler does goes behind `auth::require`.
pub(super) fn authenticate(routes: Router<Shared>, state: &Shared) -> Router<Shared> {
    let edge = state.clone();
    routes.route_layer(
        ServiceBuilder::new()
            // Verifies the token without refusing anything. That costs no I/O, and so both windows are one round trip.
            .layer(MapRequestLayer::new(move |request: Request| {
                auth::identify(request, &edge.variant.tokens)
            }))
            // Counts the request. Outside the refusal of tokens: an address whose window is full hears of that only.
            .layer(from_fn_with_state(state.clone(), rate_limit::limit))
            // Refuses a request without a valid token.
            .layer(layer_fn(|inner| {
                Guard::new(inner, |request: &mut Request| {
                    auth::require(request).err().map(IntoResponse::into_response)
                })
            }))
            .layer(MapResponseLayer::new(IntoResponse::into_response as fn(_) -> Response))
            // Turns a panic of the handler into an answer. Inside the rate limit, whose headers it carries as well.
            .layer(panic_guard::layer()),
    )
}
