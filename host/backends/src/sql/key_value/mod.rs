//! What tools keep between calls, in the database.
//!
//! A write is one transaction that holds the row of its space, so that writers of one space take turns, in
//! whatever process they are, and the quota is checked against what is there (`held_space.rs`). It removes a
//! batch of what has expired in its space; one that does not fit commits that and begins again, until it fits
//! or nothing has expired any more. So a space never takes more room than its quota, and no transaction is
//! long.
//!
//! Writes are not committed in groups, as journals are: each may be refused, and is answered by what stood
//! there.

mod held_space;
mod statements;

use parking_lot::Mutex;
use std::time::Duration;

use agent_core::ports::key_value::{
    KeyValueError, KeyValueStore, LONGEST_TIME_TO_LIVE, MOST_KEYS_LISTED, Space, add_to, check_key,
    check_value, range_of_keys,
};
use boxed_async::boxed_async;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::held_space::{HeldSpace, SpaceRow, StoredValue, growth};
use super::error::describe;
use super::time_limit::in_time;
use super::{SqlPool, answer, on_postgres, reading};

/// How often a process looks for what has expired in the spaces of others, who may never come back.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How long that may take, because the caller of a write waits for it.
const SWEEP_TIMEOUT: Duration = Duration::from_millis(500);

/// How many transactions of a process hold a space or wait for one. All who write in one space wait for its
/// row, each on a connection: heartbeats and journals need some of the 20 that a process has.
const MOST_HOLDERS: usize = 6;

/// Keeps values in the database, shared by every process that uses the same one.
pub struct SqlKeyValues {
    pool: SqlPool,
    /// When this process last looked for what has expired in other spaces.
    swept: Mutex<Option<Instant>>,
    holders: Semaphore,
}

/// What a write does, and what its caller is told.
enum Next<T> {
    Put(StoredValue, T),
    Remove(T),
    Leave(T),
}

impl SqlKeyValues {
    /// The store in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool, swept: Mutex::default(), holders: Semaphore::new(MOST_HOLDERS) }
    }

    /// Taken before a space is held, and kept until it is not any more.
    async fn permit(&self) -> sqlx::Result<SemaphorePermit<'_>> {
        self.holders.acquire().await.map_err(|_closed| sqlx::Error::PoolClosed)
    }

    /// Does with a key what `decide` says, which is told the time (ms since 1970) and what is there.
    async fn write<T: Send>(
        &self,
        space: Space<'_>,
        key: &str,
        decide: impl Fn(i64, Option<&StoredValue>) -> Result<Next<T>, KeyValueError> + Send + Sync,
    ) -> Result<T, KeyValueError> {
        check_key(key)?;
        let id = id_of(space);
        let row = SpaceRow { id: &id, component: space.component, user: space.user };
        let written = answer(async {
            loop {
                if let Some(written) = self.try_write(&row, space.quota, key, &decide).await? {
                    return Ok(written);
                }
            }
        });
        let written = written.await.map_err(failed)?;
        self.sweep_elsewhere().await;
        written
    }

    /// Answers nothing if it had to remove what has expired, and there may be more of that.
    async fn try_write<T: Send>(
        &self,
        row: &SpaceRow<'_>,
        quota: u64,
        key: &str,
        decide: &(impl Fn(i64, Option<&StoredValue>) -> Result<Next<T>, KeyValueError> + Send + Sync),
    ) -> sqlx::Result<Option<Result<T, KeyValueError>>> {
        let _permit = self.permit().await?;
        let mut space = HeldSpace::hold(&self.pool, row).await?;
        let look = space.look(key).await?;
        let written = match decide(look.now, look.kept.as_ref()) {
            Err(refusal) => Some(Err(refusal)),
            Ok(Next::Leave(told)) => Some(Ok(told)),
            Ok(Next::Remove(told)) => {
                if let Some(kept) = &look.kept {
                    space.remove(key, &kept.value).await?;
                }
                Some(Ok(told))
            }
            Ok(Next::Put(after, told)) => {
                let growth = growth(key, look.kept.as_ref(), &after);
                if growth <= 0 || space.bytes().saturating_add(growth).unsigned_abs() <= quota {
                    space.put(key, look.kept.as_ref(), &after).await?;
                    Some(Ok(told))
                } else if look.is_unswept {
                    None
                } else {
                    Some(Err(KeyValueError::QuotaExceeded { quota }))
                }
            }
        };
        space.end().await?;
        Ok(written)
    }

    /// Now and then removes a batch of what has expired longest, whoever's it is. It fails in silence: the
    /// next write tries again.
    async fn sweep_elsewhere(&self) {
        if !self.is_time_to_sweep() {
            return;
        }
        let swept = in_time(SWEEP_TIMEOUT, async {
            let id: Option<Vec<u8>> = match &self.pool {
                SqlPool::Postgres(postgres) => on_postgres!(postgres, Allowed, db => {
                    sqlx::query_scalar(statements::LONGEST_EXPIRED).fetch_optional(db)
                })?,
                SqlPool::Sqlite(pools) => {
                    sqlx::query_scalar(statements::LONGEST_EXPIRED).fetch_optional(pools.readers()).await?
                }
            };
            let Some(id) = id else { return Ok(()) };
            let _permit = self.permit().await?;
            let Some(mut space) = HeldSpace::hold_old(&self.pool, &id).await? else { return Ok(()) };
            space.sweep().await?;
            space.end().await
        });
        if let Err(error) = swept.await {
            tracing::debug!(error = describe(&error), "values that have expired are not removed yet");
        }
    }

    fn is_time_to_sweep(&self) -> bool {
        let now = Instant::now();
        let mut swept = self.swept.lock();
        if swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_INTERVAL) {
            return false;
        }
        *swept = Some(now);
        true
    }
}

#[boxed_async]
impl KeyValueStore for SqlKeyValues {
    async fn get(&self, space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        check_key(key)?;
        let id = id_of(space);
        reading!(&self.pool, db => {
            sqlx::query_scalar(statements::GET).bind(&*id).bind(key.as_bytes()).fetch_optional(db)
        })
        .map_err(failed)
    }

    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError> {
        check_value(value)?;
        let put = |now: i64, _: Option<&StoredValue>| {
            let expires_at = time_to_live.map(|time| now.saturating_add(ms(time)));
            Ok(Next::Put(StoredValue { value: value.into(), expires_at }, ()))
        };
        self.write(space, key, put).await
    }

    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError> {
        check_value(value)?;
        let put_if_expected = |_, kept: Option<&StoredValue>| {
            let is_expected = kept.map(|kept| &*kept.value) == expected;
            let after = StoredValue { value: value.into(), expires_at: None };
            Ok(if is_expected { Next::Put(after, true) } else { Next::Leave(false) })
        };
        self.write(space, key, put_if_expected).await
    }

    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError> {
        let put_sum = |_, kept: Option<&StoredValue>| {
            let sum = add_to(kept.map(|kept| &*kept.value), delta)?;
            let expires_at = kept.and_then(|kept| kept.expires_at);
            Ok(Next::Put(StoredValue { value: sum.to_string().into(), expires_at }, sum))
        };
        self.write(space, key, put_sum).await
    }

    async fn delete(&self, space: Space<'_>, key: &str) -> Result<bool, KeyValueError> {
        let remove = |_, kept: Option<&StoredValue>| {
            Ok(if kept.is_some() { Next::Remove(true) } else { Next::Leave(false) })
        };
        self.write(space, key, remove).await
    }

    async fn list_keys(
        &self,
        space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError> {
        let Some(range) = range_of_keys(prefix, after) else { return Ok(vec![]) };
        let id = id_of(space);
        let keys: Vec<Vec<u8>> = reading!(&self.pool, db => {
            let query = sqlx::query_scalar(statements::LIST).bind(&*id).bind(&*range.start);
            query.bind(&*range.end).bind(i64::from(most.min(MOST_KEYS_LISTED))).fetch_all(db)
        })
        .map_err(failed)?;
        Ok(keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect())
    }
}

/// What a space is found by. Lengths and a mark keep names apart that would read alike one after the other.
fn id_of(space: Space<'_>) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update((space.component.len() as u64).to_be_bytes());
    hash.update(space.component);
    if let Some(user) = space.user {
        hash.update([0]);
        hash.update(user);
    }
    hash.finalize().to_vec()
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.min(LONGEST_TIME_TO_LIVE).as_millis()).unwrap_or(i64::MAX)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> KeyValueError {
    KeyValueError::Unavailable(describe(&error))
}
