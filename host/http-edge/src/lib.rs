//! The HTTP edge: what the service looks like from outside.
//!
//! - `router`: every route of every variant on one screen.
//! - `stack`: the middlewares around every request, their order written down once. `middleware/`: one file
//!   each.
//! - [`Edge`]: everything a handler may use. [`Latch`] and [`Readiness`]: how it learns of the shutdown.
//! - `variant_a/`, `variant_b/`: one file per route, and the variant's error table. Variant B has rate limit
//!   and authentication as well, in `variant_b/api_stack.rs`. `variant_b/admin/`: the admin API, by which
//!   operators look after the tools. [`Dialect`]: its operations in another crate's form, `openai-edge`.
//! - [`Idempotency`]: where the answers to requests with an idempotency key are kept.
//! - `variant_b/mcp_over_http/`: carries the messages of `mcp-server` over HTTP.
//! - `openapi/`: the document of what is served, made from the same table as the routes, and the page that
//!   shows it.
//! - [`Tokens`]: who is who.
//! - [`Origins`], [`Hosts`]: which pages may call, and under which names the service answers.
//! - `request/`: what a request may say, described once for its reader and for the document. `body`: how its
//!   bytes are read. `json`: as JSON.
//! - `answer`: how answers are written; below it the agent's result and what the log has of a health report.
//! - `server_sent_events/`: runs as server-sent events.
//! - `pages/`: what belongs to no variant: the front page, the documentation ([`document_pages`] has its
//!   texts), the console, the metrics.
//! - Cargo features: `console` leaves out the console, `mcp` what carries messages over HTTP.
//!
//! What is public here beside [`Edge`] and [`router()`] is what a dialect is written with.
//!
//! What does not belong here: anything that knows how an answer comes about (the model, the tools, a
//! store), listening on a socket, reading the environment, spawning tasks.

#![cfg_attr(
    not(all(feature = "console", feature = "mcp")),
    allow(dead_code, unused_imports, reason = "used by what this binary is built without")
)]

pub mod answer;
pub mod body;
mod dependencies;
pub mod json;
pub mod middleware;
pub mod openapi;
mod origins;
mod pages;
mod readiness;
pub mod request;
mod router;
pub mod server_sent_events;
pub mod stack;
#[cfg(feature = "testing")]
pub mod testing;
mod tokens;
mod variant_a;
pub mod variant_b;

pub use dependencies::{
    AnsweredRequest, Dialect, Edge, Idempotency, MetricsFormat, ObserveRequest, RateLimit, RateLimits,
    RenderMetrics, RouteState, RoutesOverB, SOCKET_TASK, Settings, VariantA, VariantB,
};
pub use origins::{Hosts, NotAnOrigin, Origin, Origins};
pub use pages::docs::{Page as DocumentPage, pages as document_pages};
pub use readiness::{Latch, Readiness, TasksDown};
pub use router::router;
pub use tokens::{Claims, IssueError, Tokens};
pub use variant_b::{wait_json, webhook_message};
