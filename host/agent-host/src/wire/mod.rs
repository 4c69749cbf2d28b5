//! The composition root: from a `Config` to something that answers requests. Nothing is decided here but who
//! is given to whom; read top to bottom it is the architecture.

mod background;
mod invoke;
mod migration;
mod models;
mod probes;
mod stores;
mod tools;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent_core::circuit::SharedCircuit;
use agent_core::invoke::Admission;
use agent_core::jobs::{Jobs, Worker};
use agent_core::ports::{Cluster, Journal, Probe, Toolbox};
use agent_core::record::{Behind, Bounds};
use axum::Router;
use backends::memory::MemoryJournal;
use backends::sql::SqlProbe;
use http_edge::{Edge, Readiness, Settings, Tokens};
use model_client::{CLUSTER_TIMEOUT, HttpCluster};
use tokio::runtime::Handle;

use crate::config::{self, Config};
use crate::metrics::Metrics;
use background::{Jobbing, Recording};
use migration::Migration;

pub use background::Background;
pub use tools::start as start_tools;

/// Bytes of journals that are kept in memory while there is no store to keep them.
const JOURNAL_BYTES: usize = 8 << 20;

/// How long one check of a health report may take: half the interval at which orchestrators ask (interface,
/// Limits, "Container probes").
pub(crate) const PROBE_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// A service that is ready to be served.
pub struct Service {
    /// Every endpoint of the variants.
    pub router: Router,
    /// What has to go on beside the requests.
    pub background: Background,
}

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
    Tools(#[source] tool_host::EngineError),
    /// A metric's name or label is not allowed.
    #[error("the metrics cannot be set up")]
    Metrics(#[source] prometheus::Error),
}

/// Puts a service together. `lane` is where guests go on that take long; `worker` names this process among all
/// that work off the queue; `readiness` says when the service is going away.
pub async fn build(
    config: &Config,
    lane: Handle,
    worker: String,
    readiness: Readiness,
) -> Result<Service, WireError> {
    warn_of_what_is_not_there(config);
    let metrics =
        Metrics::new(config.service.environment, &config.observe.metrics_prefix, &Handle::current())
            .map_err(WireError::Metrics)?;
    let models = models::connect(&config.models, &metrics)?;
    let tools = tools::start(&config.tools, lane, metrics.tools()).await.map_err(WireError::Tools)?;
    let tools = Arc::new(tools);
    let toolbox: Arc<dyn Toolbox> = tools.clone();

    let stores = stores::open(&config.stores).await?;
    let prepared = Arc::new(AtomicBool::new(stores.database.is_none()));
    let migration = match &stores.database {
        Some(database) => Migration::new(database.clone(), prepared.clone()).begin().await,
        None => Ok(None),
    };
    let migration = migration.map_err(WireError::Migration)?;
    let (recording, behind) = match stores.runs {
        Some(runs) => {
            let (behind, drain) = Behind::new(runs.store.clone(), Bounds::default(), metrics.service());
            (Some(Recording { store: runs.store, writer: runs.writer, drain }), Some(behind))
        }
        None => (None, None),
    };
    let parts = invoke::Parts {
        config: &config.agent,
        metrics: &metrics,
        model: models.chat,
        toolbox: toolbox.clone(),
        behind,
    };
    let without_store: Arc<dyn Journal> = Arc::new(MemoryJournal::new(JOURNAL_BYTES));
    let llm = probes::llm(models.checked, config.models.health_ttl);

    let a = config.service.variant.serves_a().then(|| {
        let mut probes = vec![llm.clone()];
        // Decisions, "`/health/ready` checks (Variant A)".
        probes.extend(stores.database.clone().map(|pool| Arc::new(SqlProbe(pool)) as Arc<dyn Probe>));
        let invoke = parts.for_variant_a(&without_store);
        http_edge::VariantA { invoke, toolbox: toolbox.clone(), probes }
    });
    let mut jobbing = None;
    let mut b = None;
    if let (Some(config_b), Some(database), Some(recording)) =
        (&config.variant_b, &stores.database, &recording)
    {
        let shared = stores::open_shared(config_b, database, metrics.service())?;
        let admission = Admission::new(config.agent.max_concurrent);
        let circuit = SharedCircuit::new(config.agent.circuit_min_volume);
        metrics.show_gates(circuit.clone(), admission.clone()).map_err(WireError::Metrics)?;
        let jobs = Jobs::new(shared.queue.clone());
        let cache = config.agent.result_cache.then_some(shared.cache);
        let gates = invoke::Gates { cache: cache.clone(), circuit, admission: admission.clone() };
        b = Some(http_edge::VariantB {
            invoke: parts.for_variant_b(gates, &without_store),
            jobs: jobs.clone(),
            cache,
            windows: Arc::new(metrics.metered_windows(shared.windows)),
            cluster: connect_cluster(&config.agent)?,
            tokens: Tokens::new(config_b.jwt_secret.expose().as_bytes()),
            database: shared.database,
            key_value: shared.key_value,
            llm,
            prepared,
            production: config.service.environment == config::Environment::Production,
        });
        jobbing = Some(Jobbing {
            queue: shared.queue,
            writer: shared.queue_writer,
            worker: Worker::new(&jobs, parts.for_jobs(worker.clone(), admission, recording.store.clone())),
            name: worker,
            depth: metrics.show_queue().map_err(WireError::Metrics)?,
        });
    }
    let router = http_edge::router(Edge {
        a,
        b,
        metrics: Arc::new(move || metrics.render()),
        readiness,
        settings: Settings {
            max_body_bytes: config.http.max_body_bytes,
            body_time_limit: config.http.body_timeout,
            probe_time_limit: PROBE_LIMIT,
            trusted_proxies: config.http.trusted_proxies,
        },
    });
    let background =
        Background { tools, migration, recording, jobbing, database: stores.database, mongo: stores.mongo };
    Ok(Service { router, background })
}

fn connect_cluster(config: &config::Agent) -> Result<Option<Arc<dyn Cluster>>, WireError> {
    let Some(url) = &config.cluster_url else { return Ok(None) };
    let cluster = HttpCluster::new(url.as_url().clone(), CLUSTER_TIMEOUT).map_err(WireError::Cluster)?;
    Ok(Some(Arc::new(cluster)))
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
        f.debug_struct("Service").field("background", &self.background).finish_non_exhaustive()
    }
}
