//! Which variants a process serves, and the routes that all of them have. The middlewares around them are in `stack.rs`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::get;

use crate::dependencies::{Edge, RouteState};
use crate::index::{self, Variants};
use crate::middleware::refusals::Rules;
use crate::stack::{self, Surroundings};
use crate::{fallback, metrics, variant_a, variant_b};

/// Where Variant B's API is nested. The slash belongs to the prefix: what is counted is everything *under* `/api/`
/// (interface, Limits), and `/api` alone is an unknown path like any other.
const API: &str = "/api/";

/// The endpoints of the variants that the edge has the dependencies of. Their paths are disjoint.
pub fn router(edge: Edge) -> Router {
    let Edge { a, b, metrics, readiness, observe, origins, hosts, settings } = edge;
    let began = Instant::now();
    let index = Router::new()
        .route("/", get(index::show_index))
        .with_state(Variants { a: a.is_some(), b: b.is_some() });
    let mut routes =
        Router::new().route("/metrics", get(metrics::show_metrics)).with_state(metrics).merge(index);
    if let Some(variant) = a {
        let state = RouteState { variant, readiness: readiness.clone(), settings, began };
        routes = routes.merge(variant_a::routes().with_state(Arc::new(state)));
    }
    let rules = Rules { origins: origins.clone(), hosts };
    let mut api = None;
    if let Some(variant) = b {
        let state = Arc::new(RouteState { variant, readiness, settings, began });
        api = Some(variant_b::api(&state, rules.clone()));
        routes = routes.merge(variant_b::routes().with_state(state));
    }
    let routes = routes
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    let mut router = stack::protect(routes, rules);
    if let Some(api) = api {
        router = router.nest(API, api);
    }
    stack::surround(router, Surroundings { trusted_proxies: settings.trusted_proxies, observe, origins })
}
