//! What tools keep between calls, in Redis. Scripts do all of it, one operation each, so that a quota is
//! checked and a value written in one step.
//!
//! A space is three keys of one hash slot: its values with their bytes, its keys in order, and when they
//! expire. A write removes a batch of what has expired; one that does not fit is sent again until it fits or
//! nothing has expired any more. So a space never takes more room than its quota, and no script is long.
//! Redis must not evict (`maxmemory-policy noeviction`, as BullMQ wants it too): what was evicted would be
//! lost, and in part.

use std::time::Duration;

use agent_core::ports::key_value::{
    KeyValueError, KeyValueStore, LONGEST_TIME_TO_LIVE, MOST_KEYS_LISTED, Space, check_key, check_value,
    range_of_keys,
};
use boxed_async::boxed_async;
use redis::Script;
use tokio::time::timeout;

use super::{Manner, QueryError, Redis};

/// How long one answer may take. A tool waits, which has nothing to fall back to.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an operation may take that needs many answers: as long as one in a database.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Most keys that one script removes because they have expired. Redis answers nobody else meanwhile.
const MOST_SWEPT: usize = 256;

/// Larger than every quota that matters: Lua's numbers hold whole ones up to 2^53.
const LARGEST_QUOTA: u64 = 1 << 52;

/// Keeps values in Redis, for all replicas together.
pub struct RedisKeyValues {
    redis: Redis,
    get: Script,
    list: Script,
    write: Script,
}

/// What the script of writes says.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Done(Option<String>),
    Differs,
    Absent,
}

impl RedisKeyValues {
    /// Values in that Redis, over a connection of their own: large ones do not hold up what requests wait
    /// for.
    pub fn new(redis: &Redis) -> Self {
        Self {
            redis: redis.another(ANSWER_TIMEOUT),
            get: Script::new(include_str!("key_value_get.lua")),
            list: Script::new(include_str!("key_value_list.lua")),
            write: Script::new(include_str!("key_value_write.lua")),
        }
    }

    /// Carries a write out, once.
    async fn write(
        &self,
        space: Space<'_>,
        what: &str,
        key: &str,
        arguments: &[&[u8]],
    ) -> Result<Written, KeyValueError> {
        check_key(key)?;
        let names = Names::of(space);
        let redis = &self.redis.at(&names.values);
        let mut write = self.write.prepare_invoke();
        write.key(&names.values).key(&names.keys).key(&names.expiries);
        write.arg(what).arg(key).arg(space.quota.min(LARGEST_QUOTA)).arg(MOST_SWEPT);
        for argument in arguments {
            write.arg(*argument);
        }
        let write = &write;
        in_time(async {
            loop {
                let ask = |mut redis| async move { write.invoke_async(&mut redis).await };
                let written = redis.send(Manner::Once, ask);
                let mut words: Vec<String> = written.await.map_err(failed)?;
                let value = if words.len() > 1 { words.pop() } else { None };
                return match words.first().map(String::as_str) {
                    Some("again") => continue,
                    Some("done") => Ok(Written::Done(value)),
                    Some("differs") => Ok(Written::Differs),
                    Some("absent") => Ok(Written::Absent),
                    Some("full") => Err(KeyValueError::QuotaExceeded { quota: space.quota }),
                    Some("not-a-number") => Err(KeyValueError::NotANumber),
                    Some(_) | None => Err(unknown()),
                };
            }
        })
        .await
    }
}

#[boxed_async]
impl KeyValueStore for RedisKeyValues {
    async fn get(&self, space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        check_key(key)?;
        let names = Names::of(space);
        let mut get = self.get.prepare_invoke();
        get.key(&names.values).key(&names.expiries).arg(key);
        self.redis.at(&names.values).script(&get).await.map_err(failed)
    }

    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError> {
        check_value(value)?;
        let time_to_live = time_to_live.map(|time| time.min(LONGEST_TIME_TO_LIVE).as_millis().to_string());
        let time_to_live = time_to_live.unwrap_or_default();
        self.write(space, "set", key, &[value, time_to_live.as_bytes()]).await.map(drop)
    }

    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError> {
        check_value(value)?;
        let arguments: Vec<_> = [value].into_iter().chain(expected).collect();
        Ok(self.write(space, "swap", key, &arguments).await? != Written::Differs)
    }

    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError> {
        match self.write(space, "add", key, &[delta.to_string().as_bytes()]).await? {
            Written::Done(Some(sum)) => sum.parse().map_err(|_error| unknown()),
            Written::Done(None) | Written::Differs | Written::Absent => Err(unknown()),
        }
    }

    async fn delete(&self, space: Space<'_>, key: &str) -> Result<bool, KeyValueError> {
        Ok(self.write(space, "delete", key, &[]).await? != Written::Absent)
    }

    async fn list_keys(
        &self,
        space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError> {
        let Some(range) = range_of_keys(prefix, after) else { return Ok(vec![]) };
        let most = most.min(MOST_KEYS_LISTED) as usize;
        let names = Names::of(space);
        let redis = &self.redis.at(&names.values);
        let (mut start, end) = ([b"[", &*range.start].concat(), [b"(", &*range.end].concat());
        in_time(async {
            let mut listed = Vec::new();
            while listed.len() < most {
                let mut list = self.list.prepare_invoke();
                list.key(&names.keys).key(&names.expiries).arg(&start).arg(&end).arg(most);
                let found = redis.script(&list).await;
                let (last, keys): (Option<Vec<u8>>, Vec<Vec<u8>>) = found.map_err(failed)?;
                listed.extend(keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
                let Some(last) = last else { break };
                start = [b"(", &*last].concat();
            }
            listed.truncate(most);
            Ok(listed)
        })
        .await
    }
}

/// The keys of a space in Redis.
struct Names {
    values: String,
    keys: String,
    expiries: String,
}

impl Names {
    /// The length keeps names apart that would read alike one after the other. What stands between the first
    /// pair of braces decides on the hash slot, and is never empty.
    fn of(space: Space<'_>) -> Self {
        let user = space.user.map(|user| format!(":{user}")).unwrap_or_default();
        let name = format!("agent-host:tools:{{{}:{}{user}}}", space.component.len(), space.component);
        Self {
            values: format!("{name}:values"),
            keys: format!("{name}:keys"),
            expiries: format!("{name}:expiries"),
        }
    }
}

async fn in_time<T>(operation: impl Future<Output = Result<T, KeyValueError>>) -> Result<T, KeyValueError> {
    let too_late = || Err(failed(QueryError::Timeout(OPERATION_TIMEOUT)));
    timeout(OPERATION_TIMEOUT, operation).await.unwrap_or_else(|_elapsed| too_late())
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: QueryError) -> KeyValueError {
    KeyValueError::Unavailable(error.to_string())
}

fn unknown() -> KeyValueError {
    KeyValueError::Unavailable("Redis answered what its script does not say".into())
}
