//! Variant B: what only it has, and who is given to whom there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent_core::jobs::{Jobs, Worker};
use agent_core::ports::{Cluster, Probe, RunStore};
use backends::sql::SqlPool;
use http_edge::Tokens;
use model_client::{CLUSTER_TIMEOUT, HttpCluster};
use tokio_util::sync::CancellationToken;

use super::background::JobProcessing;
use super::error::WireError;
use super::invoke::SharedDeps;
use super::stores;
use crate::config::{self, Config, Environment};

/// What Variant B shares with the rest of the process.
pub(crate) struct Stores<'a> {
    pub(crate) pool: &'a SqlPool,
    /// Checks the database.
    pub(crate) probe: Arc<dyn Probe>,
    /// Where the journals of jobs are.
    pub(crate) runs: Arc<dyn RunStore>,
    /// Is cancelled when the service is going away.
    pub(crate) stopping: CancellationToken,
    /// Whether the database has its tables.
    pub(crate) prepared: Arc<AtomicBool>,
}

/// What the edge serves, and the jobs that are worked off beside it under the name `worker`.
pub(crate) fn build(
    config: &Config,
    needs: &config::VariantB,
    stores: Stores<'_>,
    parts: &SharedDeps<'_>,
    worker: String,
) -> Result<(http_edge::VariantB, JobProcessing), WireError> {
    let SharedDeps { metrics, .. } = *parts;
    let shared = stores::open_shared(needs, stores.pool, metrics.service())?;
    let context = parts.for_jobs(worker.clone(), stores.runs);
    let jobs = Jobs::new(shared.queue.clone()).until(stores.stopping);
    let jobs = match parts.for_cancelled_jobs(context.journal.clone()) {
        Some(runs) => jobs.ending(runs),
        None => jobs,
    };
    let cache = config.agent.result_cache.then_some(shared.cache);
    let processing = JobProcessing {
        queue: shared.queue,
        writer: shared.queue_writer,
        worker: Worker::new(&jobs, context),
        name: worker,
        depth: metrics.show_queue().map_err(WireError::Metrics)?,
    };
    let served = http_edge::VariantB {
        invoke: parts.for_variant_b(cache.clone()),
        jobs,
        cache,
        windows: Arc::new(metrics.metered_windows(shared.windows)),
        cluster: connect_cluster(&config.agent)?,
        tokens: Tokens::new(needs.jwt_secret.expose().as_bytes()),
        database: stores.probe,
        key_value: shared.key_value,
        llm: parts.llm.clone(),
        toolbox: parts.toolbox.clone(),
        prepared: stores.prepared,
        production: config.service.environment == Environment::Production,
    };
    Ok((served, processing))
}

fn connect_cluster(config: &config::Agent) -> Result<Option<Arc<dyn Cluster>>, WireError> {
    let Some(url) = &config.cluster_url else { return Ok(None) };
    let cluster = HttpCluster::new(url.as_url().clone(), CLUSTER_TIMEOUT).map_err(WireError::Cluster)?;
    Ok(Some(Arc::new(cluster)))
}
