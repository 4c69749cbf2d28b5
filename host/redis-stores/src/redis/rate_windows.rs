//! Rate windows in Redis: `rl:<key> -> hits`, each living as long as its window.
//!
//! On one server all windows of a request are counted in one step. In a cluster they lie on different nodes
//! and are counted one after the other, as they are on one server: none behind one that is exceeded.

use std::time::Duration;

use agent_core::ports::{Hits, RateError, RateWindows, Window};
use boxed_async::boxed_async;
use redis::Script;

use super::Redis;

/// What every key begins with (host/docs/interface/node-clients.md#rate-windows).
const PREFIX: &str = "rl:";

/// Counts hits in Redis, for all replicas together.
pub struct RedisWindows {
    redis: Redis,
    script: Script,
}

impl RedisWindows {
    /// Windows in that Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis, script: Script::new(include_str!("rate_windows.lua")) }
    }
}

#[boxed_async]
impl RateWindows for RedisWindows {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        if !self.redis.is_cluster() {
            return self.count(&self.redis, windows).await;
        }
        let mut counted = Vec::with_capacity(windows.len());
        for window in windows {
            let redis = self.redis.at(&key(window));
            let hits = self.count(&redis, std::slice::from_ref(window)).await?;
            let is_exceeded = hits.iter().any(|hits| hits.exceed(window.limit));
            counted.extend(hits);
            if is_exceeded {
                break;
            }
        }
        Ok(counted)
    }
}

impl RedisWindows {
    /// Counts in windows of one server.
    async fn count(&self, redis: &Redis, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        if windows.is_empty() {
            return Ok(vec![]);
        }
        let mut count = self.script.prepare_invoke();
        for window in windows {
            let period = u64::try_from(window.period.as_millis()).unwrap_or(u64::MAX);
            // Lua's numbers hold whole ones up to 2^53.
            count.key(key(window)).arg(window.limit).arg(period.clamp(1, 1 << 52)).arg(window.cost);
        }
        let counted: Vec<u64> = redis.script(&count).await.map_err(|error| RateError(error.to_string()))?;
        let (pairs, _nothing_left) = counted.as_chunks::<2>();
        let hits = |&[count, left]: &[u64; 2]| Hits { count, resets_in: Duration::from_millis(left) };
        Ok(pairs.iter().map(hits).collect())
    }
}

fn key(window: &Window<'_>) -> String {
    format!("{PREFIX}{}", window.key)
}
