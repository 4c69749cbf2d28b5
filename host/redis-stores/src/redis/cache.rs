//! Results in Redis: `agent:… -> JSON`, each with its time to live.

use std::time::Duration;

use agent_core::ports::cache::NAMESPACE;
use agent_core::ports::{CacheError, ResultCache};
use boxed_async::boxed_async;
use bytes::Bytes;

use super::{QueryError, Redis};

/// How many keys Redis looks at per step of an invalidation. It answers nobody else meanwhile.
const SCAN_STEP: usize = 1000;

/// Keeps results in Redis, where every replica finds them.
pub struct RedisCache(Redis);

impl RedisCache {
    /// Results in that Redis.
    pub fn new(redis: Redis) -> Self {
        Self(redis)
    }

    /// One step through all keys of a server: where to go on (0 at the end) and keys that match. They are of
    /// everybody: a pattern can be wider than the namespace.
    async fn scan(server: &Redis, cursor: u64, pattern: &str) -> Result<(u64, Vec<Vec<u8>>), QueryError> {
        let mut step = redis::cmd("SCAN");
        server.command(step.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_STEP)).await
    }

    /// In a cluster one by one, as they are of many slots.
    async fn unlink(&self, keys: &[Vec<u8>]) -> Result<u64, QueryError> {
        if !self.0.is_cluster() {
            return unlink(&self.0, keys).await;
        }
        let mut unlinked = 0;
        for key in keys {
            let server = self.0.at(&String::from_utf8_lossy(key));
            unlinked += unlink(&server, std::slice::from_ref(key)).await?;
        }
        Ok(unlinked)
    }

    async fn delete_on(&self, server: &Redis, pattern: &str) -> Result<u64, QueryError> {
        let (mut cursor, mut deleted) = (0, 0);
        loop {
            let (next, mut keys) = Self::scan(server, cursor, pattern).await?;
            keys.retain(|key| key.starts_with(NAMESPACE.as_bytes()));
            if !keys.is_empty() {
                deleted += self.unlink(&keys).await?;
            }
            if next == 0 {
                return Ok(deleted);
            }
            cursor = next;
        }
    }
}

#[boxed_async]
impl ResultCache for RedisCache {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, CacheError> {
        let got = self.0.at(key).command(redis::cmd("GET").arg(key)).await;
        let value: Option<Vec<u8>> = got.map_err(cache_error)?;
        Ok(value.map(Bytes::from))
    }

    async fn put(&self, key: &str, json: Bytes, time_to_live: Duration) -> Result<(), CacheError> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&*json).arg("PX").arg(millis(time_to_live));
        self.0.at(key).command(&set).await.map_err(cache_error)
    }

    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError> {
        let mut deleted = 0;
        for server in self.0.masters().await.map_err(cache_error)? {
            deleted += self.delete_on(&server, pattern).await.map_err(cache_error)?;
        }
        Ok(deleted)
    }
}

async fn unlink(server: &Redis, keys: &[Vec<u8>]) -> Result<u64, QueryError> {
    server.command(redis::cmd("UNLINK").arg(keys)).await
}

/// Redis takes whole milliseconds, and at least one.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64 / 2)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn cache_error(error: QueryError) -> CacheError {
    CacheError(error.to_string())
}
