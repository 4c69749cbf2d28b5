//! Rate windows in Redis: `rl:<key> -> hits`, each living as long as its window.

use std::time::Duration;

use agent_core::ports::{Hits, RateError, RateWindows, Window};
use async_trait::async_trait;
use redis::Script;

use super::Redis;

/// What every key begins with (wire 1.1, "Window").
const PREFIX: &str = "rl:";

/// Counts hits in Redis, for all replicas together.
#[derive(Debug)]
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

#[async_trait]
impl RateWindows for RedisWindows {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        if windows.is_empty() {
            return Ok(vec![]);
        }
        let mut count = self.script.prepare_invoke();
        for window in windows {
            let period = u64::try_from(window.period.as_millis()).unwrap_or(u64::MAX);
            // Lua's numbers hold whole ones up to 2^53.
            count.key(format!("{PREFIX}{}", window.key)).arg(window.limit).arg(period.clamp(1, 1 << 52));
        }
        let count = &count;
        let asked = self.redis.query(|mut redis| async move { count.invoke_async(&mut redis).await }).await;
        let counted: Vec<u64> = asked.map_err(|error| RateError(error.to_string()))?;
        let (pairs, _nothing_left) = counted.as_chunks::<2>();
        let hits = |&[count, left]: &[u64; 2]| Hits { count, resets_in: Duration::from_millis(left) };
        Ok(pairs.iter().map(hits).collect())
    }
}
