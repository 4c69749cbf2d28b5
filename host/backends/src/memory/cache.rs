//! Results of this process, the least used forgotten first.

use std::time::{Duration, Instant};

use agent_core::ports::cache::NAMESPACE;
use agent_core::ports::{CacheError, ResultCache};
use boxed_async::boxed_async;
use bytes::Bytes;
use moka::Expiry;
use moka::future::Cache;

use super::glob;

/// Keeps results in memory.
#[derive(Debug)]
pub struct MemoryCache {
    kept: Cache<String, CachedResult>,
}

#[derive(Debug, Clone)]
struct CachedResult {
    json: Bytes,
    time_to_live: Duration,
}

impl MemoryCache {
    /// Keeps about as many results as fit into `most_bytes`, counted as JSON with their keys.
    pub fn new(most_bytes: u64) -> Self {
        let weigh = |key: &String, kept: &CachedResult| {
            u32::try_from(key.len() + kept.json.len()).unwrap_or(u32::MAX)
        };
        let kept = Cache::builder().max_capacity(most_bytes).weigher(weigh);
        Self { kept: kept.expire_after(OwnTime).build() }
    }
}

#[boxed_async]
impl ResultCache for MemoryCache {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, CacheError> {
        Ok(self.kept.get(key).await.map(|kept| kept.json))
    }

    async fn put(&self, key: &str, json: Bytes, time_to_live: Duration) -> Result<(), CacheError> {
        self.kept.insert(key.to_owned(), CachedResult { json, time_to_live }).await;
        Ok(())
    }

    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError> {
        let mut deleted = 0;
        for (key, _) in &self.kept {
            if key.starts_with(NAMESPACE) && glob::matches(pattern.as_bytes(), key.as_bytes()) {
                deleted += u64::from(self.kept.remove(&*key).await.is_some());
            }
        }
        Ok(deleted)
    }
}

/// Every result says how long it is kept; one that replaces another begins anew.
struct OwnTime;

impl Expiry<String, CachedResult> for OwnTime {
    fn expire_after_create(&self, _key: &String, kept: &CachedResult, _now: Instant) -> Option<Duration> {
        Some(kept.time_to_live)
    }

    fn expire_after_update(
        &self,
        _key: &String,
        kept: &CachedResult,
        _now: Instant,
        _left: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.time_to_live)
    }
}
