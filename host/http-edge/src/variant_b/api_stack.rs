//! The middlewares around everything under `/api/`, `/admin/` and `/v1/` and around `/mcp`, in the order in
//! which a request meets them:
//!
//! ```text
//! surround      rate_limit::report → error::render → refusals → panic guard
//! authenticate    auth::identify → rate_limit::limit → auth::require → idempotency → panic guard → handler
//! ```
//!
//! The inner row is around the routes alone. A request that none of them answers (no such path, no such
//! method, refused) needs no token and is counted by `report`, in the address's window only.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::util::{MapRequestLayer, MapResponseLayer};

use super::auth::Caller;
use super::error::{Error, Render};
use super::rate_limit::Counting;
use super::state::Shared;
use super::{auth, documented, rate_limit};
use crate::middleware::guard::Guard;
use crate::middleware::idempotency::{Idempotent, Manner};
use crate::middleware::panic_guard;
use crate::middleware::refusals::Rules;
use crate::openapi::{Described, Operation};
use crate::stack;

/// What a token that is none is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// 403 (host/docs/interface/errors-and-limits.md#errors).
    Forbidden,
    /// 401, as RFC 6750 has it: MCP clients take another token for it.
    Unauthorized,
}

impl TokenRefusal {
    fn of(self, error: Error) -> Error {
        match (self, error) {
            (Self::Unauthorized, Error::Token(error)) => Error::TokenRejected(error),
            (_, error) => error,
        }
    }
}

/// What is said of every route in it.
pub fn describe(route: Described) -> Described {
    describe_with(route, TokenRefusal::Forbidden)
}

/// Describes a route behind [`authenticate_with`].
pub fn describe_with(route: Described, refusal: TokenRefusal) -> Described {
    let is_post = route.is_post();
    route.map(move |operation| {
        let operation = if is_post { operation.once(documented::keys()) } else { operation };
        describe_operation(operation, refusal)
    })
}

fn describe_operation(operation: Operation, refusal: TokenRefusal) -> Operation {
    let of_users = operation.refuses(documented::limits()).headers(&rate_limit::OF_USERS);
    let tokens = documented::tokens().into_iter().map(|error| refusal.of(error).refused());
    stack::describe(of_users.wants_token(&[]).refuses(tokens)).headers(&rate_limit::OF_ADDRESSES)
}

/// Surrounds the routes and what answers when there is none. `render` gives errors their bodies.
pub fn surround<S>(routes: Router<S>, state: &Shared, rules: Rules, render: Render) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let production = state.variant.production;
    routes.layer(
        ServiceBuilder::new()
            // Writes the headers of the windows, on every answer.
            .layer(from_fn_with_state((state.clone(), render), rate_limit::report))
            // Gives errors their bodies.
            .layer(MapResponseLayer::new(move |answer| render(answer, production)))
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

/// As [`authenticate`], for routes that wait themselves for the check that they have as an extension, or only
/// read: their answers are held back until the check has passed.
pub fn authenticate_beside<S>(routes: Router<S>, state: &Shared, render: Render) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    surround_routes(routes, state, Counting::Beside, TokenRefusal::Forbidden, render)
}

/// Surrounds the routes that are there by now: their handlers see only requests of an authenticated
/// [`auth::Caller`] within its rate limit. What has to know the caller before the handler does goes behind
/// `auth::require`.
pub fn authenticate<S>(routes: Router<S>, state: &Shared, render: Render) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    authenticate_with(routes, state, TokenRefusal::Forbidden, render)
}

/// Surrounds the routes as [`authenticate`] does, with another answer to bad tokens.
pub fn authenticate_with<S>(
    routes: Router<S>,
    state: &Shared,
    refusal: TokenRefusal,
    render: Render,
) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    surround_routes(routes, state, Counting::Before, refusal, render)
}

fn surround_routes<S>(
    routes: Router<S>,
    state: &Shared,
    counting: Counting,
    refusal: TokenRefusal,
    render: Render,
) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let edge = state.clone();
    let (keys, settings, manner) =
        (state.idempotency.clone(), state.settings, manner(state.variant.production, render));
    routes.route_layer(
        ServiceBuilder::new()
            // Verifies the token without refusing anything. That costs no I/O, and so both windows are one
            // round trip.
            .layer(MapRequestLayer::new(move |request: Request| {
                auth::identify(request, &edge.variant.tokens)
            }))
            // Counts the request. Outside the refusal of tokens: an address whose window is full hears of
            // that only.
            .layer(from_fn_with_state((state.clone(), counting), rate_limit::limit))
            // Refuses a request without a valid token.
            .layer(layer_fn(move |inner| {
                Guard::new(inner, move |request: &mut Request| {
                    auth::require(request).err().map(|error| refusal.of(error).into_response())
                })
            }))
            // Answers a request that was carried out under its idempotency key before. Inside the rate limit,
            // in which such a request counts like any other.
            .layer(layer_fn(move |inner| Idempotent::new(inner, keys.clone(), settings, manner)))
            .layer(MapResponseLayer::new(IntoResponse::into_response as fn(_) -> Response))
            // Turns a panic of the handler into an answer. Inside the rate limit, whose headers it carries as
            // well.
            .layer(panic_guard::layer()),
    )
}

/// Idempotency keys are counted per user.
fn manner(production: bool, render: Render) -> Manner {
    Manner {
        caller: |request| {
            let caller = request.extensions().get().map(Caller::id);
            caller.map(|id| format!("user:{id}")).unwrap_or_default()
        },
        refuse: |refusal| Error::from(refusal).into_response(),
        render,
        production,
    }
}
