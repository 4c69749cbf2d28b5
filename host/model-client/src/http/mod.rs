//! One HTTP exchange with a provider: bounded in time and size, traced, and turned into an error when it
//! fails.
//!
//! - [`client`]: the connection pool. [`transport`]: a `POST` and its response. [`client_span`]: its span in
//!   traces.
//! - [`auth_header`]: the API key as a header.
//! - [`provider_error`]: what a provider says in the body of an error. [`fault`]: the `ModelError` that
//!   follows.

pub(crate) mod auth_header;
pub(crate) mod client;
pub(crate) mod client_span;
pub(crate) mod fault;
pub(crate) mod provider_error;
pub(crate) mod transport;
