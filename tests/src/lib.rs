//! What the acceptance tests are written with: the real binary, started as a user would start it, and
//! everything around it.
//!
//! - [`Service`]: a running `agent-host` with a folder of tools, and a method per endpoint ([`Caller`]).
//! - [`User`] and [`Token`]: callers of Variant B, and what they identify themselves with.
//! - [`Peer`]: the Node deployment that clients use today (`peers/`).
//! - [`Model`]: a fake provider that plays a script and holds every request against its protocol's rules.
//! - [`Component`]: the tools we ship, those that misbehave, and files that are no tools.
//! - [`count_tokens`]: what a text costs a caller of a language model.
//! - [`Collector`]: takes traces and decodes them.
//! - [`Events`]: reads event streams.
//! - [`Upstream`]: an HTTP server that is neither, and remembers what it was sent.
//! - [`Socket`]: for requests that no HTTP client would send. [`Exposition`]: metrics, read.
//! - [`Postgres`], [`Redis`], [`Registry`]: real servers of our own, which can be stopped (`servers/`).
//! - [`Stores`]: the stores of a deployment, in each combination that is supported.
//! - [`Process`], [`Log`], [`Task`], [`eventually`]: running things and waiting for them.
//!
//! Whatever is started ends when its guard is dropped, and a service whose test fails prints its log. Nothing
//! here sleeps for a guessed while: waiting is for a condition, and it gives up loudly at a deadline.
//!
//! What does not belong here: what the service should do. That is what the tests in `it/` say.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so does what it is written with"
)]

mod artifacts;
mod caller;
mod collector;
mod component;
mod events;
mod exposition;
mod granted;
mod log;
mod model;
mod peer;
mod process;
mod random;
mod service;
mod socket;
mod stores;
mod token;
mod tokens;
mod upstream;
mod user;

pub use artifacts::{agent_host, agent_tool, repository};
pub use caller::{Answer, Caller};
pub use collector::{Collector, Span};
pub use component::Component;
pub use events::{Events, Sent};
pub use exposition::Exposition;
pub use log::Log;
pub use model::{Gate, Model, Play, Request, asks_for, asks_for_all, order, says};
pub use peer::{Peer, PeerServer, PeerWorker};
pub use process::{Ended, Process, Signal};
pub use random::Random;
pub use service::{Builder, Service, Startable};
pub use socket::{ReservedPort, Socket};
pub use stores::Stores;
pub use test_servers::{PATIENCE, Postgres, Redis, Registry, Task, eventually, within};
pub use token::{SECRET, Token, claims, now};
pub use tokens::count_tokens;
pub use upstream::{Received, Upstream, serve};
pub use user::User;
