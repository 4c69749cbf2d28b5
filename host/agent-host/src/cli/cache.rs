//! `agent-host cache invalidate`: forgets kept results, as `DELETE /api/agent/cache` does.

use agent_core::ports::ResultCache as _;
use anyhow::bail;
use clap::Subcommand;
use host_setup::output::{json_line, print};
use host_setup::program::install_tls;
use redis_stores::redis::{Redis, RedisCache};
use serde_json::json;

use super::Exit;
use crate::config::{KeyValue, ProcessEnv};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Delete every kept result whose key matches, and say how many they were
    ///
    /// Needs REDIS_URL. A cache that lives in a serving process (REDIS_URL=memory://) can only be reached
    /// through it: DELETE /api/agent/cache?pattern=… with the token of an admin.
    Invalidate {
        /// In the glob style of Redis, for example agent:*
        pattern: String,
    },
}

pub(super) async fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    let Command::Invalidate { pattern } = command;
    let url = match KeyValue::from_vars(&ProcessEnv)? {
        KeyValue::Redis(url) => url,
        KeyValue::Memory => bail!(
            "REDIS_URL=memory:// keeps the cache in the serving process: ask it, with \
             DELETE /api/agent/cache?pattern=… and the token of an admin"
        ),
    };
    install_tls();
    let cache = RedisCache::new(Redis::open(url.expose())?);
    let deleted = cache.delete_matching(&pattern).await?;
    print(&match json {
        true => json_line(&json!({ "deleted": deleted })),
        false => format!("{deleted}\n"),
    })?;
    Ok(Exit::Success)
}
