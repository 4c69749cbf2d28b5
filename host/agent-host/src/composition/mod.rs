//! The composition root: from a `Config` to something that answers requests. Nothing is decided here but who
//! is given to whom; read top to bottom it is the architecture.

mod background;
mod dependencies;
mod error;
mod graceful_shutdown;
mod instructions;
mod invoke;
mod migration;
mod models;
mod probes;
mod retention;
mod store_checks;
mod stores;
mod tools;
mod variant_b;
mod webhooks;

use std::sync::Arc;

use agent_core::circuit_breaker::SharedCircuit;
use agent_core::ports::{IdempotencyStore, Probe, ToolAdmin};
use axum::Router;
use backends::memory::MemoryJournal;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use host_setup::stores::StoreError;
use host_setup::tools::tool_host_config;
use http_edge::{Edge, Hosts, Idempotency, Readiness, Settings};
use run_service::journal::{Backlog, WriteBehind};
use run_service::layers::{Admission, PreparedTools};
use run_service::live::LiveRuns;
use run_service::retention::Sweeper;
use run_service::shutdown::Shutdown;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tool_host::{HttpMode, ToolHost};

use crate::config::{self, Config};
use crate::http_recordings;
use crate::metrics::{HttpMetrics, Metrics};
use crate::tasks::{Supervisor, Tasks};
use background::Recording;
use invoke::SharedDeps;
use migration::{Migration, Schema};
use probes::SharedChecks;
use store_checks::StoreChecks;
use stores::Runs;

pub use background::Background;
pub(crate) use dependencies::{StoreProbes, providers, store_probes};
pub use error::WireError;
pub use graceful_shutdown::Running;
pub(crate) use instructions::read as read_instructions;
pub(crate) use probes::PROBE_LIMIT;
pub(crate) use retention::sweeper as open_sweeper;
pub(crate) use stores::{
    key_value as open_key_value, open as open_stores, open_existing as open_existing_stores,
    queue as open_queue, tool_versions as open_tool_versions,
};
pub(crate) use webhooks::outbox as open_outbox;

/// Bytes of journals that are kept in memory while there is no store to keep them.
const JOURNAL_BYTES: usize = 8 << 20;

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
    /// Runs of requests, and what else is written behind answers.
    pub writes: Tasks,
}

/// How the process is known to others.
#[derive(Debug)]
pub struct Identity {
    /// Its name among all that work off the queue.
    pub worker: String,
    /// Under which names its clients may call it.
    pub hosts: Hosts,
    /// What requests and jobs are worked on.
    pub runtimes: Vec<Handle>,
}

/// Puts a service together. `readiness` and `shutdown` say when the service is going away.
#[expect(clippy::too_many_lines, reason = "the composition of the service, read from top to bottom")]
pub async fn build(
    config: &Config,
    Identity { worker, hosts, runtimes }: Identity,
    readiness: Readiness,
    shutdown: &Shutdown,
) -> Result<Service, WireError> {
    let (metrics, models) = connect_models(config, runtimes)?;
    let (stores, store_checks) = open_checked(config).await?;
    // Before the tools are started: what they write waits from then on until the service is put together, and
    // one that has the one writer of SQLite meanwhile would hold this up.
    let (schema, migration) = prepare(stores.database.as_ref()).await?;
    let (tools, http_recordings) = start_tools(config, &stores, &metrics).await?;
    let (runs, sweeper) = (Tasks::new(), sweep(config, &stores, &worker, &metrics)?);
    let callers = Callers::new(hosts, stores::idempotency(&config.stores, &stores)?, &runs);
    let conversations = stores::conversations(&stores, &runs);
    let (recording, behind) = record(stores.runs, &metrics);
    let (circuit, admission) = bulkheads(&config.agent, &metrics)?;
    let (llm, checks_of_model) = probes::llm(models.checked, &config.models);
    let mut checks = SharedChecks::default();
    checks.add(checks_of_model);
    let parts = SharedDeps {
        config: &config.agent,
        metrics: &metrics,
        model: Arc::new(probes::Heard { model: models.chat, probe: llm.clone() }),
        toolbox: tools.clone(),
        tools: PreparedTools::new(tools.clone(), config.agent.admission_wait),
        instructions: instructions::read(&config.agent)?,
        behind,
        unrecorded: Arc::new(MemoryJournal::new(JOURNAL_BYTES)),
        llm: Arc::new(llm),
        circuit,
        admission,
        spawn: Arc::new(runs.clone()),
        live: LiveRuns::default(),
        store: recording.as_ref().map(|recording| recording.store.clone()),
        conversations,
        shutdown: shutdown.clone(),
    };

    let database = check_database(stores.database.as_ref(), stores.mongo.as_ref(), &schema);
    let (supervisor, readiness) = supervise(&metrics, readiness.with_stores(store_checks.findings()));
    let of_a = || database.clone().map(|probe| checks.share(probe, probes::KEPT_IN_A));
    let a = config.service.variant.serves_a().then(of_a).map(|database| variant_a(&parts, database));
    let (b, processing) = match (&config.variant_b, &stores.database, database, &recording) {
        (Some(needs), Some(pool), Some(probe), Some(recording)) => {
            let (runs, findings, prepared) =
                (recording.store.clone(), store_checks.findings(), schema.prepared);
            let (stopping, tool_admin) =
                (shutdown.stopping().clone(), Some(tools.clone() as Arc<dyn ToolAdmin>));
            let probe = checks.share(probe, probes::KEPT_IN_B);
            let checks = &mut checks;
            let stores =
                variant_b::Stores { pool, probe, checks, runs, prepared, findings, stopping, tool_admin };
            Some(variant_b::build(config, needs, stores, &parts, worker)?)
        }
        _ => None, // Variant B has a database, and where there is one runs are recorded.
    }
    .unzip();
    let (http_metrics, behind, writes) = (metrics.http(), parts.behind.clone(), runs.clone());
    let router = http_edge::router(Edge { a, b, ..edge(config, metrics, readiness, callers) });
    let background = Background {
        supervisor,
        tools,
        checks: checks.run(),
        store_checks,
        migration,
        runs,
        recording,
        http_recordings,
        sweeper,
        processing,
        database: stores.database,
        mongo: stores.mongo,
    };
    Ok(Service { router, background, http_metrics, recording: behind, writes })
}

fn connect_models(config: &Config, runtimes: Vec<Handle>) -> Result<(Metrics, models::Connected), WireError> {
    let metrics = new_metrics(config, runtimes)?;
    let models = models::connect(&config.models, &metrics)?;
    Ok((metrics, models))
}

fn new_metrics(config: &Config, runtimes: Vec<Handle>) -> Result<Metrics, WireError> {
    let prefix = &config.observe.metrics_prefix;
    Metrics::new(config.service.environment, prefix, runtimes).map_err(WireError::Metrics)
}

/// The stores, with a look at the settings of those that are there before anything is written to them.
async fn open_checked(config: &Config) -> Result<(stores::Opened, StoreChecks), WireError> {
    let opened = stores::open(&config.stores).await?;
    let has_queue = config.variant_b.is_some();
    let checks = StoreChecks::new(stores::checks(&config.stores, &opened, has_queue)?);
    checks.begin().await?;
    Ok((opened, checks))
}

/// The tools, and what writes down what they are answered over HTTP.
async fn start_tools(
    config: &Config,
    stores: &stores::Opened,
    metrics: &Metrics,
) -> Result<(Arc<ToolHost>, Option<http_recordings::Drain>), WireError> {
    let (http, drain) = record_http(&config.tools, stores)?;
    let host = tool_host::Config {
        observer: metrics.tools(),
        versions: stores::tool_versions(stores),
        // In the database, or in Redis where there is none.
        key_value: stores::key_value(&config.stores, stores)?,
        // Without Variant B there are no users.
        user_names_key: config.variant_b.as_ref().map(|needs| needs.jwt_secret.clone()),
        http,
        remembers: true,
        ..tool_host_config(&config.tools, config.agent.token_budget)
    };
    Ok((Arc::new(ToolHost::start(host).await.map_err(WireError::Tools)?), drain))
}

/// Where requests of tools go, and what writes down what they are answered, if that is to be kept.
fn record_http(
    config: &config::Tools,
    stores: &stores::Opened,
) -> Result<(HttpMode, Option<http_recordings::Drain>), WireError> {
    if !config.record_http {
        return Ok((HttpMode::default(), None));
    }
    let store = stores::http_recordings(stores).ok_or(WireError::NoRecordings)?;
    let (recorder, drain) = http_recordings::channel(store);
    Ok((HttpMode::Network { recorder: Some(Arc::new(recorder)) }, Some(drain)))
}

/// The circuit of the agent and the places for its runs, which all variants and the queue's worker share.
fn bulkheads(config: &config::Agent, metrics: &Metrics) -> Result<(SharedCircuit, Admission), WireError> {
    let circuit = SharedCircuit::new(config.circuit_min_volume, || Instant::now().into_std());
    let admission = config.max_concurrent.map_or_else(Admission::unlimited, Admission::new);
    metrics.show_gates(circuit.clone(), admission.clone()).map_err(WireError::Metrics)?;
    Ok((circuit, admission))
}

/// Who begins background tasks anew, and readiness that is denied until they run again.
fn supervise(metrics: &Metrics, readiness: Readiness) -> (Supervisor, Readiness) {
    let restarts = metrics.service();
    let supervisor = Supervisor::new(move |task, count| restarts.task_restarted(task, count));
    let down = supervisor.clone();
    (supervisor, readiness.with_tasks(Arc::new(move || down.down())))
}

/// Whether there are tables; makes them, or says who is to make them as soon as the database is there.
async fn prepare(database: Option<&SqlPool>) -> Result<(Schema, Option<Migration>), WireError> {
    let schema = Schema::new(database.is_none());
    let Some(database) = database else { return Ok((schema, None)) };
    let migration = Migration::new(Arc::new(database.clone()), schema.clone());
    Ok((schema, migration.begin().await.map_err(StoreError::Migration)?))
}

/// What removes what ended long ago. Jobs are on Redis only where Variant B is served.
fn sweep(
    config: &Config,
    stores: &stores::Opened,
    worker: &str,
    metrics: &Metrics,
) -> Result<Sweeper, WireError> {
    let key_value = config.variant_b.as_ref().map(|needs| &needs.key_value);
    retention::sweeper(config.retention, key_value, stores, worker.to_owned(), metrics.retention())
}

/// Where runs are recorded, if anywhere, and how they get there.
fn record(runs: Option<Runs>, metrics: &Metrics) -> (Option<Recording>, Option<WriteBehind>) {
    let Some(Runs { store, writer }) = runs else { return (None, None) };
    let (behind, drain) = WriteBehind::new(store.clone(), Backlog::default(), metrics.service());
    (Some(Recording { store, writer, drain }), Some(behind))
}

fn variant_a(parts: &SharedDeps<'_>, database: Option<Arc<dyn Probe>>) -> http_edge::VariantA {
    // host/docs/interface/decisions-http.md#reports-and-metrics.
    let probes = [Some(parts.llm.clone()), database].into_iter().flatten().collect();
    let streams = Some(parts.streams(None, None));
    http_edge::VariantA { invoke: parts.for_variant_a(), streams, toolbox: parts.toolbox.clone(), probes }
}

/// How callers are answered, whichever variant they call.
struct Callers {
    hosts: Hosts,
    idempotency: Idempotency,
}

impl Callers {
    /// Requests with an idempotency key are carried out among `runs`.
    fn new(hosts: Hosts, keys: Arc<dyn IdempotencyStore>, runs: &Tasks) -> Self {
        Self { hosts, idempotency: Idempotency { store: keys, spawn: Arc::new(runs.clone()) } }
    }
}

/// Whether the database answers and has its tables.
fn check_database(
    database: Option<&SqlPool>,
    mongo: Option<&MongoStore>,
    schema: &Schema,
) -> Option<Arc<dyn Probe>> {
    database.map(|pool| schema.checked(probes::database(pool, mongo)))
}

/// What both variants share, without the variants.
fn edge(config: &Config, metrics: Metrics, readiness: Readiness, callers: Callers) -> Edge {
    let counted = metrics.http();
    Edge {
        a: None,
        b: None,
        observe: Arc::new(move |request| counted.answered(request)),
        origins: config.http.origins.clone(),
        hosts: callers.hosts,
        idempotency: callers.idempotency,
        metrics: Arc::new(move |format| metrics.render_as(format)),
        readiness,
        settings: settings(config),
    }
}

fn settings(config: &Config) -> Settings {
    let http = &config.http;
    Settings {
        max_body_bytes: http.max_body_bytes,
        body_time_limit: http.body_timeout,
        probe_time_limit: PROBE_LIMIT,
        trusted_proxies: http.trusted_proxies,
        rates: http.rates,
        max_websockets: http.max_websockets,
        // Lambda gives an answer when it is whole.
        whole_answers: config.service.lambda_runtime_api.is_some(),
    }
}
