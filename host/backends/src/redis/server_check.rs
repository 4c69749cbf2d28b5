//! Whether a Redis server is set up so that it keeps what is put there: eviction, persistence, version.
//!
//! Settings are asked for with `CONFIG GET`, which managed servers refuse; then what `INFO` tells is used. What neither
//! tells is a warning. `server_settings.rs` has the rules.

use agent_core::ports::{StoreCheck, StoreCheckError, StoreWarning};
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};

use super::server_settings::{RedisUse, ServerSettings};
use super::{QueryError, Redis};

/// The sections of `INFO` that are read.
const SECTIONS: [&str; 3] = ["server", "memory", "persistence"];

/// The settings that are asked for.
const SETTINGS: [&str; 4] = ["maxmemory-policy", "appendonly", "appendfsync", "save"];

/// States of a server that pass. Any other refusal is one of the command.
const PASSING: [&str; 4] = ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN"];

/// Checks a Redis server.
#[derive(Debug)]
pub struct RedisCheck {
    redis: Redis,
    purpose: RedisUse,
}

impl RedisCheck {
    /// Checks that server for that use, on a connection that lives no longer than a check.
    pub fn new(redis: Redis, purpose: RedisUse) -> Self {
        Self { redis, purpose }
    }

    async fn read(&self) -> Result<ServerSettings, QueryError> {
        let mut settings = ServerSettings::default();
        for section in SECTIONS {
            if let Some(text) = self.ask::<String>(&["INFO", section]).await? {
                settings.add_info(&text);
            }
        }
        for name in SETTINGS {
            // One at a time: Redis before version 7 takes no more.
            if let Some(pair) = self.ask::<Vec<String>>(&["CONFIG", "GET", name]).await?
                && let [_name, value] = &pair[..]
            {
                settings.add_config(name, value);
            }
        }
        Ok(settings)
    }

    /// The answer to a command; none if the server refuses it.
    async fn ask<T: FromRedisValue + Send>(&self, words: &[&str]) -> Result<Option<T>, QueryError> {
        let ask = |redis| async move { send(redis, words).await };
        match self.redis.query(ask).await {
            Ok(answer) => Ok(Some(answer)),
            Err(QueryError::Refused { code, .. }) if !PASSING.contains(&&*code) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

async fn send<T: FromRedisValue>(mut redis: MultiplexedConnection, words: &[&str]) -> RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query_async(&mut redis).await
}

#[async_trait]
impl StoreCheck for RedisCheck {
    fn store(&self) -> &'static str {
        "redis"
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreCheckError> {
        let settings = self.read().await;
        self.redis.disconnect();
        let settings = settings.map_err(|error| StoreCheckError::Away { detail: error.to_string() })?;
        settings.judge(self.purpose).map_err(|problem| StoreCheckError::Unfit { problem })
    }
}
