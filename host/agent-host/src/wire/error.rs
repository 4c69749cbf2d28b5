//! Why a service cannot be put together.

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
    /// The database's address cannot be used.
    #[error("the database cannot be set up")]
    Database(#[source] backends::sql::AddressError),
    /// The database holds something else.
    #[error("DATABASE_URL names a database that this program cannot use")]
    Migration(#[source] backends::sql::SetupError),
    /// The document store's address cannot be used.
    #[error("the document store cannot be set up")]
    Mongo(#[source] backends::mongo::MongoAddressError),
    /// The key-value store's address cannot be used.
    #[error("REDIS_URL cannot be used")]
    Redis(#[source] backends::redis::AddressError),
    /// The cluster's address cannot be used.
    #[error("AGENT_CLUSTER_URL")]
    Cluster(#[source] model_client::ConnectError),
    /// The tool host cannot start.
    #[error("the tools cannot be set up")]
    Tools(#[source] tool_host::StartError),
    /// A metric's name or label is not allowed.
    #[error("the metrics cannot be set up")]
    Metrics(#[source] prometheus::Error),
}
