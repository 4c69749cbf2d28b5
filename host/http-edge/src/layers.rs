//! What happens around every request, in the order in which a request meets it.
//!
//! The limits on bodies are not here: see `body.rs` for why.

mod client_address;
mod compression;
mod cors;
mod one_line;
mod panic_guard;
mod refusals;
mod request_id;
mod request_log;
mod server_span;

use axum::Router;
use axum::response::{IntoResponse, Response};
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::util::{MapRequestLayer, MapResponseLayer};
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use client_address::ClientAddress;
pub(crate) use refusals::Rules;
pub(crate) use request_id::RequestId;
pub(crate) use request_log::Whose;

use crate::edge::ObserveRequest;
use crate::variant_b::{Gate, Gated};

/// What the layers are made of.
pub(crate) struct Surroundings {
    pub(crate) trusted_proxies: usize,
    pub(crate) observe: ObserveRequest,
    pub(crate) rules: Rules,
    pub(crate) gate: Option<Gate>,
}

/// Puts the layers around every route and around what answers when there is none. They are one stack,
/// because each call of [`Router::layer`] would put every route into one more box.
pub(crate) fn wrap(routes: Router, surroundings: Surroundings) -> Router {
    let Surroundings { trusted_proxies, observe, rules, gate } = surroundings;
    let origins = rules.origins.clone();
    routes.layer(
        ServiceBuilder::new()
            // Names the request. Outermost, so that every answer carries the id, whoever gave it, and
            // everything below can use it.
            .layer(layer_fn(request_id::Identified::new))
            // Finds out who is calling, for the log and for whoever limits callers.
            .layer(MapRequestLayer::new(move |request| client_address::note(request, trusted_proxies)))
            // Writes one line per request and counts it. Outside the panic guard, so that a request that
            // panicked gets its line like any other, and inside the two above, which it quotes.
            .layer(layer_fn(move |inner| request_log::Logged::new(inner, observe.clone())))
            // Compresses what is large, whoever answers it.
            .layer(compression::layer())
            // Tells browsers which pages may read the answer, a 429 of the gate included.
            .layer(layer_fn(move |inner| cors::Cors::new(inner, origins.clone())))
            // Counts what comes to Variant B, whoever answers it. Inside the log, which quotes the user that it
            // learned of, and outside the panic guard, so that a panic's answer carries its headers as well.
            .layer(layer_fn(move |inner| Gated::new(inner, gate.clone())))
            // Answers what no route is to see. Inside the gate, so that it is counted.
            .layer(layer_fn(move |inner| refusals::Checked::new(inner, rules.clone())))
            .layer(MapResponseLayer::new(IntoResponse::into_response as fn(_) -> Response))
            // Turns a panic into an answer. Innermost, so that no other layer has to think of panics.
            .layer(CatchPanicLayer::custom(panic_guard::answer_panic)),
    )
}
