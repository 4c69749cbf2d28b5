//! Which variants a process serves, and the routes that all of them have. What happens around every request
//! is in `layers.rs`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::get;

use crate::edge::{Edge, Served};
use crate::front::{self, Front};
use crate::layers::{self, Rules, Surroundings};
use crate::variant_b::Gate;
use crate::{fallback, metrics, variant_a, variant_b};

/// The endpoints of the variants that the edge has the dependencies of. Their paths are disjoint.
pub fn router(edge: Edge) -> Router {
    let Edge { a, b, metrics, readiness, observe, origins, hosts, settings } = edge;
    let began = Instant::now();
    let front =
        Router::new().route("/", get(front::show_front)).with_state(Front { a: a.is_some(), b: b.is_some() });
    let mut routes =
        Router::new().route("/metrics", get(metrics::show_metrics)).with_state(metrics).merge(front);
    if let Some(variant) = a {
        let served = Served { variant, readiness: readiness.clone(), settings, began };
        routes = routes.merge(variant_a::routes().with_state(Arc::new(served)));
    }
    let mut gate = None;
    if let Some(variant) = b {
        let served = Arc::new(Served { variant, readiness, settings, began });
        gate = Some(Gate::new(served.clone()));
        routes = routes.merge(variant_b::routes().with_state(served));
    }
    let routes = routes
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    let trusted_proxies = settings.trusted_proxies;
    layers::wrap(routes, Surroundings { trusted_proxies, observe, rules: Rules { origins, hosts }, gate })
}
