//! The HTTP edge: what the service looks like from outside.
//!
//! - `router`: every route of every variant on one screen.
//! - `layers`: what happens around every request, its order written down once.
//! - [`Edge`]: everything a handler may use. [`Latch`] and [`Readiness`]: how it learns of the shutdown.
//! - `variant_a/`, `variant_b/`: one file per route, and the variant's error table. Variant B has a gate as
//!   well: who may come in, and how often.
//! - [`Tokens`]: who is who.
//! - [`Origins`], [`Hosts`]: which pages may call, and under which names the service answers.
//! - `body`, `json`, `answer`, `fallback`, `front`, `metrics`: what the variants share.
//!
//! What does not belong here: anything that knows how an answer comes about (the model, the tools, a
//! store), listening on a socket, reading the environment, spawning tasks.

mod answer;
mod body;
mod edge;
mod fallback;
mod front;
mod json;
mod layers;
mod metrics;
mod origins;
mod readiness;
mod router;
mod tokens;
mod unhealthy;
mod variant_a;
mod variant_b;

pub use edge::{
    AnsweredRequest, Edge, ObserveRequest, RateLimit, RateLimits, RenderMetrics, Settings, VariantA, VariantB,
};
pub use origins::{Hosts, NotAnOrigin, Origin, Origins};
pub use readiness::{Latch, Readiness, TasksDown};
pub use router::router;
pub use tokens::{Claims, IssueError, Tokens};
