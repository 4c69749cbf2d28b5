//! What a client of one provider is made from.

use std::time::Duration;

use agent_core::secret::Secret;
use url::Url;

use crate::protocol::provider::Provider;

/// How long one call may take (host/docs/interface/errors-and-limits.md#limits).
pub const CALL_TIMEOUT: Duration = Duration::from_millis(30_000);

/// One provider, one model, one key.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// The protocol, and the address if no other is given.
    pub provider: Provider,
    /// The model's name as the provider knows it, without a `provider/` in front.
    pub model: String,
    /// Sent to the provider with every request, without surrounding white space.
    pub api_key: Secret,
    /// Another address that speaks the same protocol. See [`Provider`] for what it may end with.
    pub base_url: Option<Url>,
    /// How long one call may take; usually [`CALL_TIMEOUT`]. The deadline of a request may be sooner.
    pub timeout: Duration,
}
