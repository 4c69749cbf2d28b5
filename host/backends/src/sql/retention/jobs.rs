//! Jobs that have ended. Their ids grow with time, so that they are found along an index of the ids of those
//! that have ended: however many older ones wait for somebody, none of these is looked at.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage};
use futures::TryFutureExt as _;

use super::ids::{as_json, of_dialect, with_ids};
use crate::sql::text_columns::escape;
use crate::sql::{SqlPool, reading, to_ms, writing};

/// Whether a job has ended. The index `jobs_ended` (migration 23) is of these: both databases find it by this
/// text.
macro_rules! has_ended {
    () => {
        "status IN ('completed', 'failed', 'cancelled')"
    };
}

/// `$1` after which id, `$2` before which, `$3` ended before, `$4` most rows.
pub(super) const ENDED_BEFORE: &str = concat!(
    "SELECT id FROM jobs WHERE id > $1 AND id < $2 AND ",
    has_ended!(),
    " AND finished_at < $3 ORDER BY id LIMIT $4"
);

/// `$1` user, `$2` after which id, `$3` most rows.
const ENDED_OF: &str =
    concat!("SELECT id FROM jobs WHERE user_id = $1 AND id > $2 AND ", has_ended!(), " ORDER BY id LIMIT $3");

/// `$1` how many are newer.
pub(super) const NTH_NEWEST: &str =
    concat!("SELECT created_at FROM jobs WHERE ", has_ended!(), " ORDER BY id DESC LIMIT 1 OFFSET $1");

const REMOVE: [&str; 2] = with_ids!("DELETE FROM jobs WHERE id", "AND ", has_ended!());

pub(super) const OLDEST: &str =
    concat!("SELECT finished_at FROM jobs WHERE ", has_ended!(), " ORDER BY id LIMIT 1");

pub(super) async fn ended_before(
    pool: &SqlPool,
    before: SystemTime,
    from: Option<&str>,
    most: u32,
) -> sqlx::Result<EndedPage> {
    let before = to_ms(before);
    // The first 48 bits of an id are when it was made, in milliseconds.
    let last = format!("{:012x}", before.clamp(0, (1 << 48) - 1));
    let ids: Vec<String> = reading!(pool, db => {
        let query = sqlx::query_scalar(ENDED_BEFORE).bind(from.unwrap_or_default()).bind(&last);
        query.bind(before).bind(i64::from(most)).fetch_all(db)
    })?;
    Ok(page(ids, most))
}

pub(super) async fn ended_of(
    pool: &SqlPool,
    user_id: &str,
    from: Option<&str>,
    most: u32,
) -> sqlx::Result<EndedPage> {
    let ids: Vec<String> = reading!(pool, db => {
        let query = sqlx::query_scalar(ENDED_OF).bind(escape(user_id)).bind(from.unwrap_or_default());
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    Ok(page(ids, most))
}

fn page(ids: Vec<String>, most: u32) -> EndedPage {
    let is_full = ids.len() >= most as usize;
    let next = ids.last().filter(|_| is_full).cloned();
    EndedPage { items: ids.into_iter().map(|id| EndedItem { id, job_id: None }).collect(), next }
}

pub(super) async fn remove(pool: &SqlPool, ids: &[String]) -> sqlx::Result<u64> {
    let (sql, ids) = (of_dialect(pool, REMOVE), as_json(ids.iter()));
    writing!(pool, db => {
        sqlx::query(sql).bind(&ids).execute(db).map_ok(|done| done.rows_affected())
    })
}
