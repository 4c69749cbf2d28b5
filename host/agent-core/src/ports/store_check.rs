//! Whether a store's server is set up so that it keeps what the service promises.

use boxed_async::boxed_async;
use serde::Serialize;
use utoipa::ToSchema;

/// Reads the settings of a store's server.
#[boxed_async]
pub trait StoreCheck: Send + Sync {
    /// The store's name in readiness reports.
    fn store(&self) -> &'static str;

    /// What weakens the service's promises, none if nothing does. A setting that the server does not tell is
    /// a warning as well.
    async fn check(&self) -> Result<Vec<StoreWarning>, StoreCheckError>;
}

/// A setting under which the service works and promises less. It is shown in readiness reports, so it holds
/// no secret and no address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StoreWarning {
    /// The store's name.
    #[schema(example = "redis")]
    pub store: &'static str,
    /// The server's setting, or ours.
    #[schema(example = "appendfsync")]
    pub setting: &'static str,
    /// What is set, what that costs, and what to set.
    #[schema(example = "everysec: a second of jobs is lost when the machine fails")]
    pub problem: String,
}

/// Why the check of a store did not pass. Neither text holds an address or a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreCheckError {
    /// The server cannot be asked at the moment.
    #[error("its settings cannot be read: {detail}")]
    Away {
        /// What the connection says.
        detail: String,
    },
    /// The service must not be used with this server: it would break a promise.
    #[error("{problem}")]
    Unfit {
        /// What is set, what that costs, and what to set.
        problem: String,
    },
}
