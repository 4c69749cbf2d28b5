//! The composition root: from a `Config` to something that answers requests. Nothing is decided here but who
//! is given to whom; read top to bottom it is the architecture.

mod invoke;
mod models;
mod probes;
mod tools;

use std::sync::Arc;

use agent_core::ports::Toolbox;
use axum::Router;
use backends::memory::MemoryJournal;
use http_edge::{Edge, Readiness, Settings};
use tokio::runtime::Handle;
use tool_host::ToolHost;

use crate::config::Config;
use crate::metrics::Metrics;

pub use tools::start as start_tools;

/// Bytes of journals that are kept in memory while there is no store to keep them.
const JOURNAL_BYTES: usize = 8 << 20;

/// How long one check of a health report may take: half the interval at which orchestrators ask (interface,
/// Limits, "Container probes").
pub(crate) const PROBE_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// A service that is ready to be served.
pub struct Service {
    /// Every endpoint of the variant.
    pub router: Router,
    /// The tools, whose folder is to be watched.
    pub tools: Arc<ToolHost>,
    /// What has to be closed when the last request is answered.
    pub database: Option<backends::sql::SqlPool>,
}

/// Why a service cannot be put together. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A variant that is asked for is not part of this version.
    #[error("SERVICE_VARIANT: this version serves Variant A only; set it to a")]
    VariantNotServed,
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
    /// The tool host cannot start.
    #[error("the tools cannot be set up")]
    Tools(#[source] tool_host::EngineError),
    /// A metric's name or label is not allowed.
    #[error("the metrics cannot be set up")]
    Metrics(#[source] prometheus::Error),
}

/// Puts a service together. `lane` is where guests go on that take long; `readiness` says when the service is
/// going away.
pub async fn build(config: &Config, lane: Handle, readiness: Readiness) -> Result<Service, WireError> {
    if config.variant_b.is_some() {
        return Err(WireError::VariantNotServed);
    }
    warn_of_what_is_not_there(config);
    let metrics =
        Metrics::new(config.service.environment, &config.observe.metrics_prefix, &Handle::current())
            .map_err(WireError::Metrics)?;
    let models = models::connect(&config.models, &metrics)?;
    let tools = tools::start(&config.tools, lane, metrics.tools()).await.map_err(WireError::Tools)?;
    let tools = Arc::new(tools);
    let toolbox: Arc<dyn Toolbox> = tools.clone();
    let journal = Arc::new(MemoryJournal::new(JOURNAL_BYTES));
    let database = probes::open(config.stores.database.as_ref()).map_err(WireError::Database)?;

    let invoke = invoke::stack(&config.agent, &metrics, models.chat, toolbox.clone(), journal);
    let probes = probes::all(models.checked, config.models.health_ttl, database.clone());
    let router = http_edge::variant_a(Edge {
        invoke,
        toolbox,
        probes,
        metrics: Arc::new(move || metrics.render()),
        readiness,
        settings: Settings {
            max_body_bytes: config.http.max_body_bytes,
            body_time_limit: config.http.body_timeout,
            probe_time_limit: PROBE_LIMIT,
            trusted_proxies: config.http.trusted_proxies,
        },
    });
    Ok(Service { router, tools, database })
}

/// Settings that this version reads and does not act on. Whoever sets them expects something.
fn warn_of_what_is_not_there(config: &Config) {
    if config.tools.policy.exists() {
        let file = config.tools.policy.display();
        tracing::warn!(%file, "TOOLS_POLICY is not read yet: tools get what the contract gives to all, and nothing else");
    }
    if config.observe.tracing_api_key.is_some() {
        tracing::warn!("TRACING_API_KEY has no effect yet: traces are not exported");
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("tools", &self.tools).finish_non_exhaustive()
    }
}
