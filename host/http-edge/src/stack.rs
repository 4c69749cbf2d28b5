//! The middlewares around every route, in the order in which a request meets them. Those of requests under
//! `/api/` and `/admin/` go on in `variant_b/api_stack.rs`, those of all others in [`protect`].
//!
//! The limits on bodies are not here: see `body.rs` for why.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::answer;
use crate::dependencies::ObserveRequest;
use crate::middleware::annotate::Annotate;
use crate::middleware::guard::Guard;
use crate::middleware::refusals::Rules;
use crate::middleware::{client_address, compression, cors, panic_guard, refusals, request_id, request_log};
use crate::openapi::{Operation, Refused};
use crate::origins::Origins;

/// What the middlewares around every route need.
pub struct Surroundings {
    pub trusted_proxies: usize,
    pub observe: ObserveRequest,
    pub origins: Origins,
}

/// Surrounds every route, and what answers when there is none. It is one stack, because each call of
/// [`Router::layer`] puts every route into one more box.
pub fn surround(routes: Router, surroundings: Surroundings) -> Router {
    let Surroundings { trusted_proxies, observe, origins } = surroundings;
    routes.layer(
        ServiceBuilder::new()
            // Gives the request an id. Outermost, so that every answer carries it and everything below can
            // use it.
            .layer(layer_fn(|inner| Annotate::new(inner, request_id::name)))
            // Finds the client's address, for the log and for the rate limit.
            .layer(MapRequestLayer::new(move |request| client_address::note(request, trusted_proxies)))
            // Writes one line per request and counts it. Outside the panic guard, so that a request that
            // panicked gets its line like any other, and inside the two above, which it quotes.
            .layer(layer_fn(move |inner| request_log::RequestLog::new(inner, observe.clone())))
            // Compresses large answers, whoever gives them.
            .layer(MapResponseLayer::new(compression::at_once))
            .layer(compression::layer())
            // Tells browsers which pages may read the answer, a 429 of the rate limit included.
            .layer(layer_fn(move |inner| {
                let origins = origins.clone();
                Annotate::new(inner, move |request: &mut Request| cors::share(request, &origins))
            })),
    )
}

/// What is said of every route, because of what surrounds it.
pub fn describe(operation: Operation) -> Operation {
    operation.refuses(documented())
}

/// What any route's request may be answered, because of what surrounds it.
pub fn documented() -> impl Iterator<Item = Refused> {
    let panicked = Refused::text(StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR);
    refusals::documented().chain([panicked])
}

/// Surrounds the routes that are under neither, inside of [`surround`].
pub fn protect(routes: Router, rules: Rules) -> Router {
    routes.layer(
        ServiceBuilder::new()
            // Answers what no route is to see.
            .layer(layer_fn(move |inner| {
                let rules = rules.clone();
                Guard::new(inner, move |request: &mut Request| rules.answer(request))
            }))
            .layer(MapResponseLayer::new(IntoResponse::into_response as fn(_) -> Response))
            // Turns a panic into an answer.
            .layer(panic_guard::layer()),
    )
}
