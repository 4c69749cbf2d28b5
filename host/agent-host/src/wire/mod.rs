//! The composition root: from a `Config` to something that answers requests. Nothing is decided here but who
//! is given to whom; read top to bottom it is the architecture.

mod background;
mod error;
mod invoke;
mod migration;
mod models;
mod probes;
mod shutdown;
mod stores;
mod tools;
mod variant_b;

use std::sync::Arc;

use agent_core::circuit::SharedCircuit;
use agent_core::journal::{Backlog, WriteBehind};
use agent_core::policy::Admission;
use agent_core::ports::Probe;
use axum::Router;
use backends::memory::MemoryJournal;
use backends::sql::SqlPool;
use futures::FutureExt;
use http_edge::{Edge, Hosts, Readiness, Settings};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::metrics::{HttpMetrics, Metrics};
use crate::tasks::{Supervisor, Tasks};
use background::Recording;
use invoke::SharedDeps;
use migration::{Migration, Schema};
use stores::Runs;

pub use background::Background;
pub use error::WireError;
pub use shutdown::Running;
pub(crate) use stores::open as open_stores;
pub use tools::{Kept, ToolsStart, start_observed as start_observed_tools};

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
    /// Where connections are counted.
    pub http_metrics: Arc<HttpMetrics>,
    /// Runs that are recorded behind their answers, if runs are recorded.
    pub recording: Option<WriteBehind>,
}

/// How the process is known to others.
#[derive(Debug)]
pub struct Identity {
    /// Its name among all that work off the queue.
    pub worker: String,
    /// Under which names its clients may call it.
    pub hosts: Hosts,
}

/// Puts a service together. `guest_runtime` is where guests go on that take long; `readiness` and `stopping` say when the
/// service is going away.
pub async fn build(
    config: &Config,
    guest_runtime: Handle,
    identity: Identity,
    readiness: Readiness,
    stopping: &CancellationToken,
) -> Result<Service, WireError> {
    let Identity { worker, hosts } = identity;
    let metrics =
        Metrics::new(config.service.environment, &config.observe.metrics_prefix, &Handle::current())
            .map_err(WireError::Metrics)?;
    let models = models::connect(&config.models, &metrics)?;
    let stores = stores::open(&config.stores).await?;
    let tools = tools::start_observed(ToolsStart {
        config: &config.tools,
        token_budget: config.agent.token_budget,
        guest_runtime,
        observer: tools::counted(metrics.tools()),
        kept: kept(config, &stores)?,
        learn: false,
        remembers: true,
    });
    let tools = Arc::new(tools.await.map_err(WireError::Tools)?);
    let schema = Schema::new(stores.database.is_none());
    let migration = prepare(stores.database.as_ref(), &schema).await?;
    let (recording, behind) = record(stores.runs, &metrics);
    let (circuit, admission) = bulkheads(&config.agent, &metrics)?;
    let (llm, checks) = probes::llm(models.checked, &config.models);
    let runs = Tasks::new();
    let parts = SharedDeps {
        config: &config.agent,
        metrics: &metrics,
        model: Arc::new(probes::Heard { model: models.chat, probe: llm.clone() }),
        toolbox: tools.clone(),
        behind,
        unrecorded: Arc::new(MemoryJournal::new(JOURNAL_BYTES)),
        llm: Arc::new(llm),
        circuit,
        admission,
        spawn: Arc::new(runs.clone()),
    };

    let database = stores.database.as_ref().map(|pool| probes::database(pool, stores.mongo.as_ref()));
    let database = database.map(|probe| schema.checked(probe));
    let (supervisor, readiness) = supervise(&metrics, readiness);
    let a = config.service.variant.serves_a().then(|| variant_a(&parts, database.clone()));
    let (b, processing) = match (&config.variant_b, &stores.database, database, &recording) {
        (Some(needs), Some(pool), Some(probe), Some(recording)) => {
            let (runs, stopping) = (recording.store.clone(), stopping.clone());
            let prepared = schema.prepared;
            let stores = variant_b::Stores { pool, probe, runs, prepared, stopping };
            let (served, processing) = variant_b::build(config, needs, stores, &parts, worker)?;
            (Some(served), Some(processing))
        }
        // Variant B has a database, and where there is one runs are recorded.
        _ => (None, None),
    };
    let (http_metrics, behind) = (metrics.http(), parts.behind.clone());
    let router = http_edge::router(Edge { a, b, ..edge(&config.http, metrics, readiness, hosts) });
    let (database, mongo) = (stores.database, stores.mongo);
    let checks = checks.run().boxed();
    let background =
        Background { supervisor, tools, checks, migration, runs, recording, processing, database, mongo };
    Ok(Service { router, background, http_metrics, recording: behind })
}

/// What components may keep: in the database, or in Redis where there is none.
fn kept(config: &Config, stores: &stores::Opened) -> Result<Kept, WireError> {
    let key_value = stores::key_value(&config.stores, stores)?;
    // Without Variant B there are no users.
    let user_names_key = config.variant_b.as_ref().map(|needs| needs.jwt_secret.clone());
    Ok(Kept { key_value, user_names_key })
}

/// What components may keep when no service runs: in the same stores, whose tables are made if they are not there.
pub(crate) async fn kept_by(config: &config::Stores) -> Result<Kept, WireError> {
    // There is one TLS backend in this process; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stores = stores::open(config).await?;
    let schema = Schema::new(stores.database.is_none());
    prepare(stores.database.as_ref(), &schema).await?;
    Ok(Kept { key_value: stores::key_value(config, &stores)?, user_names_key: None })
}

/// The circuit of the agent and the places for its runs, which all variants and the queue's worker share.
fn bulkheads(config: &config::Agent, metrics: &Metrics) -> Result<(SharedCircuit, Admission), WireError> {
    let circuit = SharedCircuit::new(config.circuit_min_volume);
    let admission = config.max_concurrent.map_or_else(Admission::unlimited, Admission::new);
    metrics.show_gates(circuit.clone(), admission.clone()).map_err(WireError::Metrics)?;
    Ok((circuit, admission))
}

/// Who begins background tasks anew, and readiness that is denied until they run again.
fn supervise(metrics: &Metrics, readiness: Readiness) -> (Supervisor, Readiness) {
    let restarts = metrics.service();
    let supervisor = Supervisor::new(move |task| restarts.task_restarted(task));
    let down = supervisor.clone();
    (supervisor, readiness.with_tasks(Arc::new(move || down.down())))
}

/// Makes the tables, or says who is to make them as soon as the database is there.
async fn prepare(database: Option<&SqlPool>, schema: &Schema) -> Result<Option<Migration>, WireError> {
    let Some(database) = database else { return Ok(None) };
    Migration::new(Arc::new(database.clone()), schema.clone()).begin().await.map_err(WireError::Migration)
}

/// Where runs are recorded, if anywhere, and how they get there.
fn record(runs: Option<Runs>, metrics: &Metrics) -> (Option<Recording>, Option<WriteBehind>) {
    let Some(Runs { store, writer }) = runs else { return (None, None) };
    let (behind, drain) = WriteBehind::new(store.clone(), Backlog::default(), metrics.service());
    (Some(Recording { store, writer, drain }), Some(behind))
}

fn variant_a(parts: &SharedDeps<'_>, database: Option<Arc<dyn Probe>>) -> http_edge::VariantA {
    // Decisions, "`/health/ready` checks (Variant A)".
    let probes = [Some(parts.llm.clone()), database].into_iter().flatten().collect();
    http_edge::VariantA { invoke: parts.for_variant_a(), toolbox: parts.toolbox.clone(), probes }
}

/// What both variants share, without the variants.
fn edge(config: &config::Http, metrics: Metrics, readiness: Readiness, hosts: Hosts) -> Edge {
    let counted = metrics.http();
    Edge {
        a: None,
        b: None,
        observe: Arc::new(move |request| counted.answered(request)),
        origins: config.origins.clone(),
        hosts,
        metrics: Arc::new(move || metrics.render()),
        readiness,
        settings: settings(config),
    }
}

fn settings(config: &config::Http) -> Settings {
    Settings {
        max_body_bytes: config.max_body_bytes,
        body_time_limit: config.body_timeout,
        probe_time_limit: PROBE_LIMIT,
        trusted_proxies: config.trusted_proxies,
        rates: config.rates,
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("background", &self.background).finish_non_exhaustive()
    }
}
