//! Why a service cannot be put together.

use host_setup::stores::StoreError;

/// Why a service cannot be put together. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A model cannot be set up.
    #[error("{variable}")]
    Model {
        /// Which of the two.
        variable: &'static str,
        /// What is wrong with it.
        #[source]
        error: model_client::ConnectError,
    },
    /// A store that is named cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store's server is set up so that it breaks a promise.
    #[error("{store}: {problem}")]
    UnfitStore {
        store: &'static str,
        /// What is wrong with it, and what to set.
        problem: String,
    },
    /// The key-value store's address cannot be used.
    #[error(transparent)]
    Redis(redis_stores::redis::AddressError),
    /// The cluster's address cannot be used.
    #[error("AGENT_CLUSTER_URL")]
    Cluster(#[source] model_client::ConnectError),
    /// HTTP is to be recorded, and nowhere to be kept.
    #[error(
        "TOOLS_RECORD_HTTP=on needs a database to keep the recordings in: set DATABASE_URL, or TOOLS_RECORD_HTTP=off"
    )]
    NoRecordings,
    /// The instructions cannot be used.
    #[error("AGENT_INSTRUCTIONS names {}, {problem}", .path.display())]
    Instructions {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The tool host cannot start.
    #[error("the tools cannot be set up")]
    Tools(#[source] tool_host::StartError),
    /// Nothing can be sent over HTTP.
    #[error("the client that sends webhooks cannot be set up")]
    Webhooks(#[source] outbound::TlsError),
    /// A metric's name or label is not allowed.
    #[error("the metrics cannot be set up")]
    Metrics(#[source] prometheus::Error),
}
