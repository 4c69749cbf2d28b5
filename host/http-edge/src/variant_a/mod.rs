//! Variant A, the plain agent without users: its routes, one file each, and its error table. What both
//! variants need is not in here.

mod error;
mod events;
mod input;
mod invoke;
mod invoke_response;
mod live;
mod ready;

use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::routing::post;
use tower::layer::layer_fn;

use crate::dependencies::{RouteState, VariantA};
use crate::middleware::client_address::ClientAddress;
use crate::middleware::idempotency::{Idempotent, Manner};
use crate::openapi::Routes;
use error::Error;

/// Keys are counted per address: there are no users.
const MANNER: Manner = Manner {
    caller: |request| ClientAddress::key(request.extensions().get().copied()),
    refuse: |refusal| Error::from(refusal).into_response(),
    render: |answer, _production| answer,
    production: true,
};

pub(crate) fn routes(state: &RouteState<VariantA>) -> Routes<Arc<RouteState<VariantA>>> {
    let (keys, settings) = (state.idempotency.clone(), state.settings);
    let once = layer_fn(move |inner| Idempotent::new(inner, keys.clone(), settings, MANNER));
    Routes::new()
        .method("post", "/agent/invoke", post(invoke::invoke_agent).layer(once.clone()), invoke::describe)
        .get("/agent/runs/{run_id}/events", events::follow_run, events::describe_stream)
        .method(
            "post",
            "/agent/runs/{run_id}/cancel",
            post(events::cancel_run).layer(once),
            events::describe_cancel,
        )
        .get("/health/live", live::report_liveness, live::describe)
        .get("/health/ready", ready::report_readiness, ready::describe)
}
