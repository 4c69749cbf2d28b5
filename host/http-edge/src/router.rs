//! Which variants a process serves, and the routes that all of them have. What happens around every request
//! is in `layers.rs`.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::edge::Edge;
use crate::{fallback, layers, metrics};

/// The endpoints of Variant A.
pub fn variant_a(edge: Edge) -> Router {
    assemble(crate::variant_a::routes(), edge)
}

fn assemble(routes: Router<Arc<Edge>>, edge: Edge) -> Router {
    let settings = edge.settings;
    let routes = routes
        .route("/metrics", get(metrics::show_metrics))
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method)
        .with_state(Arc::new(edge));
    layers::wrap(routes, settings)
}
