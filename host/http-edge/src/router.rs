//! Which variants a process serves, and the routes that all of them have. The middlewares around them are in
//! `stack.rs`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use run_service::streams::StreamPermits;

use crate::dependencies::{Edge, RouteState};
use crate::middleware::refusals::Rules;
use crate::openapi::{self, Described, Routes};
use crate::pages::index;
use crate::stack::{self, Surroundings};
use crate::{pages::docs, pages::fallback, pages::metrics, variant_a, variant_b};

/// Where Variant B's API is nested. The slash belongs to the prefix: what is counted is everything *under*
/// `/api/` (host/docs/interface/errors-and-limits.md#limits), and `/api` alone is an unknown path like any
/// other.
const API: &str = "/api/";

/// Where the admin API is nested, in the same way. What is under it counts in the same windows.
const ADMIN: &str = "/admin/";

/// Most WebSockets of one user: one for each conversation that goes on at the same time.
const MOST_SOCKETS_OF_USER: usize = 16;

/// The endpoints of the variants that the edge has the dependencies of. Their paths are disjoint.
pub fn router(edge: Edge) -> Router {
    let Edge { a, b, metrics, readiness, observe, idempotency, origins, hosts, settings } = edge;
    let began = Instant::now();
    let (scrape, mut described) =
        Routes::new().get("/metrics", metrics::show_metrics, metrics::describe).split();
    let (documentation, of_documentation) = docs::routes().split();
    let mut routes = scrape.with_state(metrics).merge(documentation);
    described.extend(of_documentation);
    if let Some(variant) = a {
        let (readiness, idempotency) = (readiness.clone(), idempotency.clone());
        let (streams, sockets) = (StreamPermits::default(), StreamPermits::default());
        let state = RouteState { variant, readiness, settings, idempotency, began, streams, sockets };
        let (own, of_own) = variant_a::routes(&state).split();
        routes = routes.merge(own.with_state(Arc::new(state)));
        described.extend(of_own);
    }
    let rules = Rules { origins: origins.clone(), hosts, checks_reads: false };
    let mut nested = vec![];
    let mut merged: Vec<(Router, Vec<Described>)> = vec![];
    if let Some(variant) = b {
        let streams = StreamPermits::default();
        let sockets = StreamPermits::new(MOST_SOCKETS_OF_USER, settings.max_websockets);
        let state = RouteState { variant, readiness, settings, idempotency, began, streams, sockets };
        let state = Arc::new(state);
        nested.push((API, variant_b::api(&state, rules.clone())));
        nested.extend(state.variant.openai.map(|of| (of.prefix, (of.routes)(&state, rules.clone()))));
        nested.push((ADMIN, variant_b::admin(&state, rules.clone())));
        #[cfg(feature = "mcp")]
        merged.push(variant_b::mcp(&state, rules.clone()));
        let (own, of_own) = variant_b::routes().split();
        routes = routes.merge(own.with_state(state));
        described.extend(of_own);
        #[cfg(feature = "console")]
        {
            let (page, of_page) = crate::pages::console::routes().split();
            routes = routes.merge(page);
            described.extend(of_page);
        }
    }
    merged.iter_mut().for_each(|(_, of_merged)| described.append(of_merged));
    for (prefix, (_, of_api)) in &mut nested {
        described.extend(of_api.drain(..).map(|route| route.below(prefix)));
    }
    described.extend(openapi::routes());
    let (index, of_index) = Routes::new().get("/", index::show_index, index::describe).split();
    described.extend(of_index);
    let described = Arc::from(described);
    let routes = routes
        .merge(index.with_state(openapi::endpoints(Arc::clone(&described))))
        .merge(openapi::serve(described, settings.max_body_bytes, stack::describe))
        .fallback(fallback::answer_unknown_path)
        .method_not_allowed_fallback(fallback::answer_wrong_method);
    let mut router = stack::protect(routes, rules);
    for (prefix, (api, _)) in nested {
        router = router.nest(prefix, api);
    }
    for (beside, _) in merged {
        router = router.merge(beside);
    }
    stack::surround(router, Surroundings { trusted_proxies: settings.trusted_proxies, observe, origins })
}
