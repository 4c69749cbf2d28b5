//! Clients of language-model providers: agent-core's `Model` port over HTTP.
//!
//! ```text
//!   Fallback            the second provider, when the first one fails or its circuit is open
//!    ├─ Retry           3 retries with exponential backoff, full jitter and Retry-After
//!    │   └─ HttpModel   one provider, one request, one reply
//!    └─ Retry
//!        └─ HttpModel
//! ```
//!
//! - `resilience/`: [`Retry`] with its [`RetryPolicy`], and [`Fallback`]. They know nothing of HTTP.
//! - `http_model`: [`HttpModel`], where the layers below are put together.
//! - `negotiation/`: what is done about a refused request, and how long that is remembered. Reads error
//!   texts.
//! - `rendered_tools`, `portable_schema/`: the tools of a catalog as a provider is shown them, rendered once
//!   per catalog.
//! - `protocol/`: the `Protocol` trait, one folder per provider that implements it, and [`Provider`], the
//!   table of them. Pure: conversations to JSON, and replies from JSON.
//! - `http/`: the exchange itself, bounded in time and size, and the errors that it can end in. Knows no
//!   provider.
//!
//! Each layer uses only those below it. Two are apart from them: [`DemoModel`], rules instead of a model for
//! the first five minutes, and [`HttpCluster`], which asks another agent service instead of a model.
//!
//! What does not belong here: the agent loop, prompts, environment variables, the arithmetic of circuits.

mod cluster;
mod connect_error;
mod demo;
mod http;
mod http_model;
mod negotiation;
mod portable_schema;
mod protocol;
mod rendered_tools;
mod resilience;
#[cfg(test)]
mod scripted;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;

pub use cluster::HttpCluster;
pub use connect_error::ConnectError;
pub use demo::DemoModel;
pub use http_model::{HttpModel, connect};
pub use protocol::provider::Provider;
pub use resilience::fallback::Fallback;
pub use resilience::retry::Retry;
pub use resilience::retry_schedule::{RETRIES, RetryPolicy};
pub use settings::{CALL_TIMEOUT, ProviderSettings};
