//! What happens around every request, in the order in which a request meets it.
//!
//! The limits on bodies are not here: see `body.rs` for why.

mod client_address;
mod one_line;
mod panic_guard;
mod request_id;
mod request_log;
mod server_span;
mod unread_body;

use axum::Router;
use tower::ServiceBuilder;
use tower::layer::layer_fn;
use tower::util::MapRequestLayer;
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use client_address::ClientAddress;
pub(crate) use request_id::RequestId;
pub(crate) use request_log::UserId;

use crate::edge::Settings;
use crate::variant_b::{Gate, Gated};

/// Puts the layers around every route and around what answers when there is none. They are one stack,
/// because each call of [`Router::layer`] would put every route into one more box.
pub(crate) fn wrap(routes: Router, settings: Settings, gate: Option<Gate>) -> Router {
    let proxies = settings.trusted_proxies;
    routes.layer(
        ServiceBuilder::new()
            // Names the request. Outermost, so that every answer carries the id, whoever gave it, and
            // everything below can use it.
            .layer(layer_fn(request_id::Identified::new))
            // Finds out who is calling, for the log and for whoever limits callers.
            .layer(MapRequestLayer::new(move |request| client_address::note(request, proxies)))
            // Writes one line per request. Outside the panic guard, so that a request that panicked gets
            // its line like any other, and inside the two above, which it quotes.
            .layer(layer_fn(request_log::Logged::new))
            // Lets clients finish sending what nobody reads. Inside the log, so that its time is in the line, and
            // outside everything that may answer without reading.
            .layer(layer_fn(unread_body::Lingering::new))
            // Counts what comes to Variant B, whoever answers it. Inside the log, which quotes the user that it
            // learned of, and outside the panic guard, so that a panic's answer carries its headers as well.
            .layer(layer_fn(move |inner| Gated::new(inner, gate.clone())))
            // Turns a panic into an answer. Innermost, so that no other layer has to think of panics.
            .layer(CatchPanicLayer::custom(panic_guard::answer_panic)),
    )
}
