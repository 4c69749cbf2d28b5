//! `GET /`: what this is and where its endpoints are, for somebody who has only the address.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use crate::answer;

/// The endpoints of the variants that are served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variants {
    pub(crate) a: bool,
    pub(crate) b: bool,
}

#[derive(Serialize)]
struct Page {
    service: &'static str,
    version: &'static str,
    endpoints: Vec<Endpoint>,
}

#[derive(Serialize)]
struct Endpoint {
    method: &'static str,
    path: &'static str,
    what: &'static str,
}

const fn endpoint(method: &'static str, path: &'static str, what: &'static str) -> Endpoint {
    Endpoint { method, path, what }
}

const A: [Endpoint; 3] = [
    endpoint("POST", "/agent/invoke", "Runs the agent: {\"input\": \"…\"}"),
    endpoint("GET", "/health/live", "Whether the process answers"),
    endpoint("GET", "/health/ready", "Whether requests should be sent here"),
];

const B: [Endpoint; 10] = [
    endpoint(
        "POST",
        "/api/agent",
        "Runs the agent: {\"query\": \"…\"}; with a bearer token, as all under /api/",
    ),
    endpoint("POST", "/api/agent/async", "Queues a job: {\"query\": \"…\"}"),
    endpoint("GET", "/api/agent/jobs", "Lists your jobs"),
    endpoint("GET", "/api/agent/jobs/{jobId}", "Reads a job; ?wait=<seconds> waits for its end"),
    endpoint("POST", "/api/agent/jobs/{jobId}/cancel", "Cancels a job"),
    endpoint("DELETE", "/api/agent/cache?pattern=agent:*", "Forgets results; for administrators"),
    endpoint("POST", "/api/serverless", "Runs the agent: {\"query\": \"…\"}"),
    endpoint(
        "POST",
        "/api/gateway",
        "Runs the agent, here or on a cluster: {\"query\": \"…\", \"priority\": \"high\"}",
    ),
    endpoint("GET", "/health", "Whether everything that the service depends on works"),
    endpoint("GET", "/ready", "Whether requests should be sent here"),
];

const BOTH: Endpoint = endpoint("GET", "/metrics", "Metrics for Prometheus");

pub(crate) async fn show_index(State(variants): State<Variants>) -> Response {
    let a = variants.a.then_some(A).into_iter().flatten();
    let b = variants.b.then_some(B).into_iter().flatten();
    let page = Page {
        service: "agent-host",
        version: env!("CARGO_PKG_VERSION"),
        endpoints: a.chain(b).chain([BOTH]).collect(),
    };
    answer::json(StatusCode::OK, &page)
}
