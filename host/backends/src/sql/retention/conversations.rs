//! Kept conversations and responses that nobody holds: by when they were last appended to.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage};
use futures::TryFutureExt as _;

use super::ids::{SqlPage, as_json, of_dialect, with_ids};
use crate::sql::text_columns::escape;
use crate::sql::{SqlPool, reading, to_ms, writing};

/// `$1` idle since, `$2` and `$3` time and key of the last one of the page before, `$4` most rows.
const IDLE_SINCE: &str = "\
    SELECT key, updated_at FROM conversations \
    WHERE updated_at < $1 AND updated_at >= $2 AND (updated_at > $2 OR key > $3) \
        AND leased_until <= (SELECT ms FROM clock) \
    ORDER BY updated_at, key LIMIT $4";

/// `$1` user, `$2` key of the last one of the page before, `$3` most rows.
const IDLE_OF: &str = "\
    SELECT key FROM conversations WHERE user_id = $1 AND key > $2 AND leased_until <= (SELECT ms FROM clock) \
    ORDER BY key LIMIT $3";

/// `$1` how many are newer.
pub(super) const NTH_NEWEST: &str = "SELECT updated_at FROM conversations \
    WHERE leased_until <= (SELECT ms FROM clock) ORDER BY updated_at DESC LIMIT 1 OFFSET $1";

const REMOVE: [&str; 2] =
    with_ids!("DELETE FROM conversations WHERE leased_until <= (SELECT ms FROM clock) AND key", "");

pub(super) const OLDEST: &str = "SELECT updated_at FROM conversations \
    WHERE leased_until <= (SELECT ms FROM clock) ORDER BY updated_at LIMIT 1";

/// A place between two is `<time in ms>:<key>`.
pub(super) async fn idle_since(pool: &SqlPool, before: SystemTime, from: Option<&str>, most: u32) -> SqlPage {
    let (time, key) = from.and_then(|from| from.split_once(':')).unwrap_or_default();
    let time = time.parse().unwrap_or(i64::MIN);
    let rows: Vec<(String, i64)> = reading!(pool, db => {
        let query = sqlx::query_as(IDLE_SINCE).bind(to_ms(before)).bind(time).bind(key);
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    let last = rows.last().filter(|_| rows.len() >= most as usize);
    let next = last.map(|(key, time)| format!("{time}:{key}"));
    Ok(EndedPage { items: rows.into_iter().map(|(key, _)| item(key)).collect(), next })
}

pub(super) async fn idle_of(pool: &SqlPool, user_id: &str, from: Option<&str>, most: u32) -> SqlPage {
    let keys: Vec<String> = reading!(pool, db => {
        let query = sqlx::query_scalar(IDLE_OF).bind(escape(user_id)).bind(from.unwrap_or_default());
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    let next = keys.last().filter(|_| keys.len() >= most as usize).cloned();
    Ok(EndedPage { items: keys.into_iter().map(item).collect(), next })
}

pub(super) async fn remove(pool: &SqlPool, keys: &[String]) -> sqlx::Result<u64> {
    let keys = as_json(keys.iter());
    writing!(pool, db => {
        let query = sqlx::query(of_dialect(pool, REMOVE)).bind(&keys);
        query.execute(db).map_ok(|done| done.rows_affected())
    })
}

fn item(key: String) -> EndedItem {
    EndedItem { id: key, job_id: None }
}
