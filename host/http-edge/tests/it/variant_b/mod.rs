//! What Variant B promises, one file per promise.

mod admin;
mod agent;
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
mod mcp_waiting;
mod open_responses;
mod openai;
mod openai_approvals;
mod openai_background;
mod openai_conversations;
mod openai_formats;
mod openai_images;
mod openai_kept;
mod openai_nested;
mod openai_sockets;
mod openai_ui;
mod order;
mod serverless;
mod streams;
mod waits;

use http::{HeaderName, HeaderValue};

use crate::harness::Answer;

/// The headers about the two windows.
pub(crate) const OF_ADDRESSES: [&str; 4] =
    ["ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset"];
pub(crate) const OF_USERS: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// Names of the headers about one of the two windows.
pub(crate) fn window_headers(answer: &Answer, prefix: &str) -> Vec<String> {
    let about = |(name, _): &(&HeaderName, &HeaderValue)| name.as_str().starts_with(prefix);
    let mut names: Vec<_> = answer.headers.iter().filter(about).map(|(name, _)| name.to_string()).collect();
    names.sort();
    names
}
