//! What Variant B promises, one file per promise.

mod admin;
mod agent;
mod authentication;
mod both;
mod cache;
mod cached_bytes;
mod conversations;
mod errors;
mod gateway;
mod health;
mod hostile;
mod idempotency;
mod jobs;
mod limits;
mod log;
mod mcp;
mod open_responses;
mod openai;
mod openai_images;
mod openai_kept;
mod order;
mod serverless;
mod streams;

use http::{HeaderName, HeaderValue};

use crate::harness::Answer;

/// Every route under `/api/`.
const ROUTES: [(&str, &str); 14] = [
    ("POST", "/api/agent"),
    ("POST", "/api/agent/async"),
    ("GET", "/api/agent/jobs"),
    ("GET", "/api/agent/jobs/1"),
    ("POST", "/api/agent/jobs/1/cancel"),
    ("GET", "/api/agent/jobs/1/events"),
    ("GET", "/api/agent/runs/run_1/events"),
    ("POST", "/api/agent/runs/run_1/cancel"),
    ("GET", "/api/agent/conversations"),
    ("GET", "/api/agent/conversations/trip"),
    ("DELETE", "/api/agent/conversations/trip"),
    ("DELETE", "/api/agent/cache?pattern=agent:*"),
    ("POST", "/api/serverless"),
    ("POST", "/api/gateway"),
];

/// Names of the headers about one of the two windows.
fn window_headers(answer: &Answer, prefix: &str) -> Vec<String> {
    let about = |(name, _): &(&HeaderName, &HeaderValue)| name.as_str().starts_with(prefix);
    let mut names: Vec<_> = answer.headers.iter().filter(about).map(|(name, _)| name.to_string()).collect();
    names.sort();
    names
}
