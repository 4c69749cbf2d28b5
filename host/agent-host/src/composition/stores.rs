//! What is kept, and where: the choice between embedded and shared stores.

use std::sync::Arc;

use agent_core::ports::{
    ConversationStore, IdempotencyStore, JobQueue, KeyBounds, KeyValueStore, Observer, Probe, RateWindows,
    ResultCache, StoreCheck, StoreFindings, ToolVersions,
};
use backends::Writer;
use backends::memory::{MemoryCache, MemoryIdempotency, MemoryWindows};
use backends::sql::{SqlConversations, SqlIdempotency, SqlKeyValues, SqlPool, SqlQueue, SqlToolVersions};
use redis_stores::bullmq::BullQueue;
use redis_stores::redis::{
    Redis, RedisCache, RedisCheck, RedisIdempotency, RedisKeyValues, RedisProbe, RedisUse, RedisWindows,
};
use run_service::conversations::Conversations;
use run_service::rates::FallbackRates;

pub(crate) use host_setup::stores::{Opened, Runs, http_recordings, open, open_existing};

use super::error::WireError;
use super::probes::InProcess;
use crate::config::{Config, KeyValue, Retention, Stores, VariantB};
use crate::tasks::Tasks;

/// Most bytes of results that are kept in this process (`REDIS_URL=memory://`).
const CACHE_BYTES: u64 = 64 << 20;

/// Most idempotency keys of all callers together, and most bytes of their answers, that are kept in this
/// process.
const KEYS_IN_PROCESS: KeyBounds = KeyBounds { keys: 100_000, bytes: 64 << 20 };

/// What Variant B keeps besides.
pub(crate) struct Shared {
    pub(crate) cache: Arc<dyn ResultCache>,
    pub(crate) windows: Arc<dyn RateWindows>,
    pub(crate) queue: Arc<dyn JobQueue>,
    /// Writes for the queue, if it lies in the database. It ends like the one of [`Runs`].
    pub(crate) queue_writer: Option<Writer>,
    pub(crate) key_value: Arc<dyn Probe>,
}

/// What looks at the settings of the stores' servers. `has_queue` says whether jobs lie in Redis, if there is
/// one.
pub(crate) fn checks(
    config: &Stores,
    opened: &Opened,
    has_queue: bool,
) -> Result<Vec<Arc<dyn StoreCheck>>, WireError> {
    let mut checks: Vec<Arc<dyn StoreCheck>> = Vec::new();
    if let Some(check) = opened.database.as_ref().and_then(SqlPool::check) {
        checks.push(Arc::new(check));
    }
    // Without a queue in it, Redis is what keeps the values of tools, unless a database does.
    if let Some(KeyValue::Redis(url)) = &config.key_value
        && (has_queue || opened.database.is_none())
    {
        let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
        let purpose = if has_queue { RedisUse::Queue } else { RedisUse::ToolValues };
        checks.push(Arc::new(RedisCheck::new(redis, purpose)));
    }
    Ok(checks)
}

/// Where tools keep values: in the database, else on Redis, else nowhere.
pub(crate) fn key_value(
    config: &Stores,
    opened: &Opened,
) -> Result<Option<Arc<dyn KeyValueStore>>, WireError> {
    if let Some(database) = &opened.database {
        return Ok(Some(Arc::new(SqlKeyValues::new(database.clone()))));
    }
    Ok(match &config.key_value {
        Some(KeyValue::Redis(url)) => {
            let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
            Some(Arc::new(RedisKeyValues::new(&redis)))
        }
        Some(KeyValue::Memory) | None => None,
    })
}

/// Where conversations are kept: where runs are. Claims whose run was dropped are given back among `tasks`.
pub(crate) fn conversations(opened: &Opened, tasks: &Tasks) -> Option<Conversations> {
    let store: Arc<dyn ConversationStore> = match (&opened.mongo, &opened.database) {
        (Some(mongo), _) => mongo.conversations(),
        (None, Some(database)) => Arc::new(SqlConversations::new(database.clone())),
        (None, None) => return None,
    };
    Some(Conversations::new(store, Arc::new(tasks.clone())))
}

/// Where idempotency keys are kept: on Redis, else in the database, else in this process.
pub(crate) fn idempotency(config: &Stores, opened: &Opened) -> Result<Arc<dyn IdempotencyStore>, WireError> {
    if let Some(KeyValue::Redis(url)) = &config.key_value {
        let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
        return Ok(Arc::new(RedisIdempotency::new(redis)));
    }
    if let Some(database) = &opened.database {
        return Ok(Arc::new(SqlIdempotency::new(database.clone())));
    }
    tracing::info!(
        "idempotency keys are kept in this process only: a restart forgets them and other replicas do not know them; \
         REDIS_URL or DATABASE_URL names a store for them"
    );
    Ok(Arc::new(MemoryIdempotency::new(KEYS_IN_PROCESS)))
}

/// Where versions of components are kept: in the database, else nowhere.
pub(crate) fn tool_versions(opened: &Opened) -> Option<Arc<dyn ToolVersions>> {
    let database = opened.database.clone()?;
    Some(Arc::new(SqlToolVersions::new(database)))
}

/// The queue of jobs, for whoever looks at it from beside the service: nothing is worked off and nobody
/// writes for it. What it notes of a job that it cancels is kept as `retention` says, like the service's own.
pub(crate) fn queue(
    config: &Stores,
    retention: Retention,
    opened: &Opened,
) -> Result<Option<Arc<dyn JobQueue>>, WireError> {
    Ok(match (&config.key_value, &opened.database) {
        (Some(KeyValue::Redis(url)), _) => {
            let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
            Some(Arc::new(BullQueue::with_shards(&redis, url.queue_shards, retention.jobs.age)))
        }
        (Some(KeyValue::Memory) | None, Some(database)) => {
            let (queue, _writer) = SqlQueue::new(database.clone());
            Some(Arc::new(queue))
        }
        (Some(KeyValue::Memory) | None, None) => None,
    })
}

/// Opens what Variant B needs: on Redis, shared by all replicas, or in this process and the database.
pub(crate) fn open_shared(
    config: &Config,
    needs: &VariantB,
    database: &SqlPool,
    findings: StoreFindings,
    observer: Arc<dyn Observer>,
) -> Result<Shared, WireError> {
    let local = Arc::new(MemoryWindows::new());
    Ok(match &needs.key_value {
        KeyValue::Memory => {
            let (queue, writer) = SqlQueue::reporting(database.clone(), findings);
            let has_journals = config.stores.mongodb.is_none();
            let queue = if has_journals { queue } else { queue.beside_other_journals() };
            Shared {
                cache: Arc::new(MemoryCache::new(CACHE_BYTES)),
                windows: local,
                queue: Arc::new(queue),
                queue_writer: Some(writer),
                key_value: Arc::new(InProcess),
            }
        }
        KeyValue::Redis(url) => {
            let redis = Redis::open(url.expose()).map_err(WireError::Redis)?;
            let windows = Arc::new(RedisWindows::new(redis.clone()));
            let queue = BullQueue::with_shards(&redis, url.queue_shards, config.retention.jobs.age);
            Shared {
                cache: Arc::new(RedisCache::new(redis.clone())),
                windows: Arc::new(FallbackRates::new(windows, local, observer)),
                queue: Arc::new(queue.beside_node_workers(url.node_workers)),
                queue_writer: None,
                key_value: Arc::new(RedisProbe(redis)),
            }
        }
    })
}
