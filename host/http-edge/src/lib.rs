//! The HTTP edge: what the service looks like from outside.
//!
//! - `router`: every route of every variant on one screen.
//! - `stack`: the middlewares around every request, their order written down once. `middleware/`: one file each.
//! - [`Edge`]: everything a handler may use. [`Latch`] and [`Readiness`]: how it learns of the shutdown.
//! - `variant_a/`, `variant_b/`: one file per route, and the variant's error table. Variant B has rate limit and
//!   authentication as well, in `variant_b/api_stack.rs`.
//! - [`Tokens`]: who is who.
//! - [`Origins`], [`Hosts`]: which pages may call, and under which names the service answers.
//! - `result_json`: the agent's result as clients read it.
//! - `body`, `json`, `answer`, `fallback`, `index`, `metrics`: what the variants share.
//!
//! What does not belong here: anything that knows how an answer comes about (the model, the tools, a
//! store), listening on a socket, reading the environment, spawning tasks.

mod answer;
mod body;
mod dependencies;
mod fallback;
mod health_log;
mod index;
mod json;
mod metrics;
mod middleware;
mod origins;
mod readiness;
mod result_json;
mod router;
mod stack;
mod tokens;
mod variant_a;
mod variant_b;

pub use dependencies::{
    AnsweredRequest, Edge, ObserveRequest, RateLimit, RateLimits, RenderMetrics, Settings, VariantA, VariantB,
};
pub use origins::{Hosts, NotAnOrigin, Origin, Origins};
pub use readiness::{Latch, Readiness, TasksDown};
pub use router::router;
pub use tokens::{Claims, IssueError, Tokens};
