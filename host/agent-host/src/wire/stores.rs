//! What is kept, and where: the choice between embedded and shared stores.

use std::sync::Arc;

use agent_core::observe::Observer;
use agent_core::ports::{JobQueue, KeyValueStore, Probe, RateWindows, ResultCache, RunStore};
use agent_core::rates::FallbackRates;
use backends::Writer;
use backends::bullmq::BullQueue;
use backends::memory::{MemoryCache, MemoryWindows};
use backends::mongo::MongoStore;
use backends::redis::{Redis, RedisCache, RedisKeyValues, RedisProbe, RedisWindows};
use backends::sql::{SqlKeyValues, SqlPool, SqlQueue, SqlRuns};

use super::error::WireError;
use super::probes::InProcess;
use crate::config::{Database, KeyValue, Stores, VariantB};

/// Most bytes of results that are kept in this process (`REDIS_URL=memory://`).
const CACHE_BYTES: u64 = 64 << 20;

/// Where runs are recorded.
pub(crate) struct Runs {
    pub(crate) store: Arc<dyn RunStore>,
    /// Writes for the store. It ends when the store has been dropped and everything is written.
    pub(crate) writer: Writer,
}

/// What any variant may have.
pub(crate) struct Opened {
    pub(crate) database: Option<SqlPool>,
    pub(crate) mongo: Option<MongoStore>,
    pub(crate) runs: Option<Runs>,
}

/// What Variant B keeps besides.
pub(crate) struct Shared {
    pub(crate) cache: Arc<dyn ResultCache>,
    pub(crate) windows: Arc<dyn RateWindows>,
    pub(crate) queue: Arc<dyn JobQueue>,
    /// Writes for the queue, if it lies in the database. It ends like the one of [`Runs`].
    pub(crate) queue_writer: Option<Writer>,
    pub(crate) key_value: Arc<dyn Probe>,
}

/// Opens the stores that are named. Nothing is connected yet: a store that is down when the service starts is
/// a matter of health, not of configuration.
pub(crate) async fn open(config: &Stores) -> Result<Opened, WireError> {
    let database = match &config.database {
        Some(Database::Postgres(url)) => Some(SqlPool::postgres(url.expose())),
        Some(Database::Sqlite(url)) => Some(SqlPool::sqlite(url.expose())),
        None => None,
    };
    let database = database.transpose().map_err(WireError::Database)?;
    let mongo = match &config.mongodb {
        Some(url) => Some(MongoStore::open(url.expose()).await.map_err(WireError::Mongo)?),
        None => None,
    };
    let runs = match (&mongo, &database) {
        (Some(mongo), _) => {
            let (store, writer) = mongo.runs();
            Some(Runs { store: Arc::new(store), writer })
        }
        (None, Some(database)) => {
            let (store, writer) = SqlRuns::new(database.clone());
            Some(Runs { store: Arc::new(store), writer })
        }
        (None, None) => None,
    };
    Ok(Opened { database, mongo, runs })
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

/// Opens what Variant B needs: on Redis, shared by all replicas, or in this process and the database.
pub(crate) fn open_shared(
    config: &VariantB,
    database: &SqlPool,
    observer: Arc<dyn Observer>,
) -> Result<Shared, WireError> {
    let local = Arc::new(MemoryWindows::new());
    Ok(match &config.key_value {
        KeyValue::Memory => {
            let (queue, writer) = SqlQueue::new(database.clone());
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
            Shared {
                cache: Arc::new(RedisCache::new(redis.clone())),
                windows: Arc::new(FallbackRates::new(windows, local, observer)),
                queue: Arc::new(BullQueue::new(&redis)),
                queue_writer: None,
                key_value: Arc::new(RedisProbe(redis)),
            }
        }
    })
}
