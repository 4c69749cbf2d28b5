//! Results of this process, the least used forgotten first.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::cache::NAMESPACE;
use agent_core::ports::{CacheError, ResultCache};
use agent_core::words::AgentResult;
use async_trait::async_trait;
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
    result: Arc<AgentResult>,
    bytes: u32,
    time_to_live: Duration,
}

impl MemoryCache {
    /// Keeps about as many results as fit into `most_bytes`, counted as JSON with their keys.
    pub fn new(most_bytes: u64) -> Self {
        let kept = Cache::builder().max_capacity(most_bytes).weigher(|_, kept: &CachedResult| kept.bytes);
        Self { kept: kept.expire_after(OwnTime).build() }
    }
}

#[async_trait]
impl ResultCache for MemoryCache {
    async fn get(&self, key: &str) -> Result<Option<Arc<AgentResult>>, CacheError> {
        Ok(self.kept.get(key).await.map(|kept| kept.result))
    }

    async fn put(
        &self,
        key: &str,
        result: &Arc<AgentResult>,
        time_to_live: Duration,
    ) -> Result<(), CacheError> {
        let mut bytes = Count(key.len());
        serde_json::to_writer(&mut bytes, &**result).map_err(|error| CacheError(error.to_string()))?;
        let bytes = u32::try_from(bytes.0).unwrap_or(u32::MAX);
        self.kept
            .insert(key.to_owned(), CachedResult { result: Arc::clone(result), bytes, time_to_live })
            .await;
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

/// Counts what is written to it.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
