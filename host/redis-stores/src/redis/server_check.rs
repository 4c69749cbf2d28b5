//! Whether a Redis server is set up so that it keeps what is put there: eviction, persistence, version; and
//! whether the server that `redis://` names takes it at all.
//!
//! Settings are asked for with `CONFIG GET`, which managed servers refuse; then what `INFO` tells is used.
//! What neither tells is a warning. `server_settings.rs` has the rules.
//!
//! Every node of a cluster is asked, and with a master its replicas: each of them has the keys after a
//! failover.

use agent_core::ports::{StoreCheck, StoreCheckError, StoreWarning};
use boxed_async::boxed_async;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};

use super::server_settings::{RedisUse, ServerSettings};
use super::{QueryError, Redis};

/// The sections of `INFO` that are read.
const SECTIONS: [&str; 4] = ["server", "memory", "persistence", "replication"];

/// The settings that are asked for.
const SETTINGS: [&str; 4] = ["maxmemory-policy", "appendonly", "appendfsync", "save"];

/// States of a server that pass. Any other refusal is one of the command.
const PASSING: [&str; 4] = ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN"];

/// Checks a Redis server.
pub struct RedisCheck {
    redis: Redis,
    purpose: RedisUse,
}

impl RedisCheck {
    /// Checks that server for that use, on a connection that lives no longer than a check.
    pub fn new(redis: Redis, purpose: RedisUse) -> Self {
        Self { redis, purpose }
    }

    /// What the servers weaken together, each thing once.
    async fn judge(&self) -> Result<Vec<StoreWarning>, StoreCheckError> {
        let away = |error: QueryError| StoreCheckError::Away { detail: error.to_string() };
        let nodes = self.redis.nodes().await.map_err(away)?;
        let (mut warnings, mut answered): (Vec<StoreWarning>, _) = (vec![], false);
        let mut failure = None;
        for node in nodes {
            let read = Self::read(&node).await;
            node.disconnect();
            match read {
                Ok(settings) => {
                    answered = true;
                    let judged = self.judge_node(&settings);
                    let judged = judged.map_err(|problem| StoreCheckError::Unfit { problem })?;
                    for warning in judged {
                        if !warnings.contains(&warning) {
                            warnings.push(warning);
                        }
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !answered => Err(away(error)),
            Some(error) => {
                warnings.push(unchecked(&error));
                Ok(warnings)
            }
            None => Ok(warnings),
        }
    }

    /// Nodes of a cluster and replicas that were found as such may be what they are.
    fn judge_node(&self, settings: &ServerSettings) -> Result<Vec<StoreWarning>, String> {
        let mut warnings = settings.judge(self.purpose)?;
        if self.redis.is_named_directly() {
            warnings.extend(settings.judge_kind(self.purpose)?);
        }
        Ok(warnings)
    }

    async fn read(node: &Redis) -> Result<ServerSettings, QueryError> {
        let mut settings = ServerSettings::default();
        for section in SECTIONS {
            if let Some(text) = ask::<String>(node, &["INFO", section]).await? {
                settings.add_info(&text);
            }
        }
        for name in SETTINGS {
            // One at a time: Redis before version 7 takes no more.
            if let Some(pair) = ask::<Vec<String>>(node, &["CONFIG", "GET", name]).await?
                && let [_name, value] = &pair[..]
            {
                settings.add_config(name, value);
            }
        }
        Ok(settings)
    }
}

/// The answer to a command; none if the server refuses it. One that refuses everything (it wants a password,
/// has no such database, takes no more connections) refuses `PING` too, and has not been asked for its
/// settings.
pub(crate) async fn ask<T: FromRedisValue + Send>(
    node: &Redis,
    words: &[&str],
) -> Result<Option<T>, QueryError> {
    let ask = |redis| async move { send(redis, words).await };
    match node.query(ask).await {
        Ok(answer) => Ok(Some(answer)),
        Err(QueryError::Refused { code, .. }) if !PASSING.contains(&&*code) => {
            node.ping().await.map(|()| None)
        }
        Err(error) => Err(error),
    }
}

fn unchecked(error: &QueryError) -> StoreWarning {
    let problem =
        format!("one of several servers was not checked, as it does not answer ({error}): bring it back");
    StoreWarning { store: "redis", setting: "replicas", problem }
}

async fn send<T: FromRedisValue>(mut redis: MultiplexedConnection, words: &[&str]) -> RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query_async(&mut redis).await
}

#[boxed_async]
impl StoreCheck for RedisCheck {
    fn store(&self) -> &'static str {
        "redis"
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreCheckError> {
        let judged = self.judge().await;
        self.redis.disconnect();
        judged
    }
}
