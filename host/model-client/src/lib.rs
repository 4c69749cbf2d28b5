//! Clients of language-model providers: agent-core's `Model` port over HTTP.
//!
//! ```text
//!   Fallback            the second provider, when the first one fails or its circuit is open
//!    ├─ Retry           3 retries with backoff, jitter and Retry-After
//!    │   └─ HttpModel   one provider, one question, one answer
//!    └─ Retry
//!        └─ HttpModel
//! ```
//!
//! Inside [`HttpModel`], from the outside in:
//! - `provider`: which protocol is spoken, and where; one match arm per provider and question.
//! - `openai`, `anthropic`: conversation to JSON and back, each beside a wire file that says what
//!   the JSON looks like. Pure.
//! - `identifiers`, `shape`, `schema`, `tool_cache`: what both protocols need for a conversation to be accepted.
//! - `negotiation`, `tool_refusal`, `profile`: what is done about a refusal, and how long that is remembered.
//! - `bounds`: what both believe of a reply. `text_calls`: calls that a model wrote into its text.
//! - `transport`: bytes out, bytes in, bounded in time and size. Knows no JSON.
//! - `client_span`: the exchange in traces.
//! - `fault`, `complaint`: a bad answer becomes an error that says what happened, and no secrets.
//!
//! Two are odd ones out: [`DemoModel`], rules instead of a model for the first five minutes, and [`HttpCluster`],
//! which asks another agent service instead of a model.
//!
//! What does not belong here: the agent loop, prompts, environment variables, the arithmetic of circuits.

mod anthropic;
mod api_key;
mod bounds;
mod client_span;
mod cluster;
mod complaint;
mod connect_error;
mod demo;
mod fallback;
mod fault;
mod http_model;
mod identifiers;
mod lenient;
mod negotiation;
mod openai;
mod profile;
mod provider;
mod retry;
mod schedule;
mod schema;
#[cfg(test)]
mod scripted;
mod settings;
mod shape;
mod text_calls;
mod tool_cache;
mod tool_refusal;
mod transport;

pub use api_key::ApiKey;
pub use cluster::{CLUSTER_TIMEOUT, HttpCluster};
pub use connect_error::ConnectError;
pub use demo::DemoModel;
pub use fallback::Fallback;
pub use http_model::{HttpModel, connect};
pub use provider::Provider;
pub use retry::Retry;
pub use schedule::Schedule;
pub use settings::{CALL_TIMEOUT, ProviderSettings};
