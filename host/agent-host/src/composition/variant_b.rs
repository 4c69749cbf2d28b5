//! Variant B: what only it has, and who is given to whom there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent_core::ports::{Cluster, Probe, ResultCache, RunStore, StoreFindings, ToolAdmin};
use backends::sql::{SqlKeyValues, SqlPool};
use http_edge::Tokens;
use model_client::HttpCluster;
use run_service::direct_calls::{DirectCalls, WaitingCalls};
use run_service::jobs::{Jobs, Worker};
use run_service::waits::Waits;
use tokio_util::sync::CancellationToken;

use super::background::JobProcessing;
use super::error::WireError;
use super::invoke::SharedDeps;
use super::probes::SharedChecks;
use super::{probes, stores, webhooks};
use crate::config::{self, Config, Environment};

/// What Variant B shares with the rest of the process.
pub(crate) struct Stores<'a> {
    pub(crate) pool: &'a SqlPool,
    /// Checks the database.
    pub(crate) probe: Arc<dyn Probe>,
    /// Makes the checks that callers share.
    pub(crate) checks: &'a mut SharedChecks,
    /// Where the journals of jobs are.
    pub(crate) runs: Arc<dyn RunStore>,
    /// What is found of the stores' settings.
    pub(crate) findings: StoreFindings,
    /// Is cancelled when the service is going away.
    pub(crate) stopping: CancellationToken,
    /// Whether the database has its tables.
    pub(crate) prepared: Arc<AtomicBool>,
    /// Shows and changes which tools serve, for administrators.
    pub(crate) tool_admin: Option<Arc<dyn ToolAdmin>>,
}

/// Why a service whose runs may wait begins no child runs.
const NO_CHILD_RUNS: &str = "no run has the tool run_agent: Node workers may share the queue, who know nothing of what a child run may not \
     do; set NODE_WORKERS=off once none of them works on it";

/// What the edge serves, and the jobs that are worked off beside it under the name `worker`.
pub(crate) fn build(
    config: &Config,
    needs: &config::VariantB,
    stores: Stores<'_>,
    parts: &SharedDeps<'_>,
    worker: String,
) -> Result<(http_edge::VariantB, JobProcessing), WireError> {
    let SharedDeps { metrics, .. } = *parts;
    let shared = stores::open_shared(config, needs, stores.pool, stores.findings, metrics.service())?;
    if config.agent.wait_tools && !shared.queue.takes_options() {
        tracing::warn!("{NO_CHILD_RUNS}");
    }
    let context = parts.for_jobs(worker.clone(), stores.runs.clone());
    let runs = stores.runs;
    let jobs = Jobs::new(shared.queue.clone()).until(stores.stopping).spawned_by(parts.spawn.clone());
    let jobs = jobs.recorded_in(runs.clone()).watched_in(parts.live.clone());
    let jobs = jobs.with_wait_tools(config.agent.wait_tools);
    let jobs = match parts.for_cancelled_jobs(context.journal.clone()) {
        Some(runs) => jobs.ending(runs),
        None => jobs,
    };
    let cache = config.agent.result_cache.then(|| parts.written_behind(shared.cache));
    let waits = Waits::new(shared.queue.clone(), runs.clone(), parts.toolbox.clone());
    let waits = waits.observed_by(metrics.service());
    let kept_in = Arc::new(SqlKeyValues::new(stores.pool.clone()));
    let waits = waits.keeping_approved_in(kept_in);
    let (webhooks, dispatcher) = webhooks::open(&config.webhooks, stores.pool, &jobs, &waits)?.unzip();
    let processing = JobProcessing {
        queue: shared.queue.clone(),
        writer: shared.queue_writer,
        // Jobs that are handed back are written in the rest of the time, before the process is forced to end.
        worker: Worker::new(&jobs, context).with_step_grace(config.http.timeouts.force * 2 / 3),
        workers: config.agent.job_workers,
        jobs: jobs.clone(),
        waits: waits.clone(),
        name: worker,
        depth: metrics.show_queue().map_err(WireError::Metrics)?,
        webhooks: dispatcher,
    };
    let waiting = parts.for_direct_calls(shared.queue.clone()).map(|direct| {
        let (jobs, waits, store) = (jobs.clone(), waits.clone(), runs.clone());
        WaitingCalls { runs: direct, jobs, waits, store }
    });
    let served = http_edge::VariantB {
        invoke: parts.for_variant_b(cache.clone(), shared.queue.clone()),
        waits,
        runs,
        queue: shared.queue.clone(),
        streams: Some(parts.streams(cache.clone(), Some(shared.queue.clone())).with_jobs(jobs.clone())),
        jobs,
        conversations: parts.conversations(stores.pool),
        webhooks,
        cache: cache.map(|cache| Arc::new(cache) as Arc<dyn ResultCache>),
        windows: Arc::new(metrics.metered_windows(shared.windows)),
        cluster: connect_cluster(&config.agent)?,
        tokens: Tokens::new(needs.jwt_secret.expose().as_bytes()),
        database: stores.probe,
        key_value: stores.checks.share(shared.key_value, probes::KEPT_IN_B),
        llm: parts.llm.clone(),
        toolbox: parts.toolbox.clone(),
        tool_calls: direct_calls(parts, waiting),
        tool_admin: stores.tool_admin,
        run_timeout: config.agent.timeout,
        openai: openai(needs.openai),
        prepared: stores.prepared,
        production: config.service.environment == Environment::Production,
    };
    Ok((served, processing))
}

/// Who answers clients of OpenAI, where that is wanted and built in.
fn openai(is_wanted: bool) -> Option<http_edge::Dialect> {
    #[cfg(feature = "openai")]
    let dialect = Some(openai_edge::DIALECT);
    #[cfg(not(feature = "openai"))]
    let dialect = None;
    dialect.filter(|_| is_wanted)
}

/// Calls of tools that clients make themselves. Those that have to wait do so where runs are kept.
fn direct_calls(parts: &SharedDeps<'_>, waiting: Option<WaitingCalls>) -> DirectCalls {
    let calls = DirectCalls::new(parts.toolbox.clone(), parts.config.timeout)
        .until(parts.shutdown.stopping().clone())
        .waiting_for(parts.tools.clone());
    match waiting {
        Some(waiting) => calls.kept_in(waiting),
        None => calls,
    }
}

/// An agent of the cluster may take as long as one here.
fn connect_cluster(config: &config::Agent) -> Result<Option<Arc<dyn Cluster>>, WireError> {
    let Some(url) = &config.cluster_url else { return Ok(None) };
    let cluster = HttpCluster::new(url.as_url().clone(), config.timeout).map_err(WireError::Cluster)?;
    Ok(Some(Arc::new(cluster)))
}
