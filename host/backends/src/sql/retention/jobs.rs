//! Jobs that have ended. Their ids grow with time, so that they are found along an index of the ids of those
//! that have ended: however many older ones wait for somebody, none of these is looked at.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage};
use futures::TryFutureExt as _;

use super::ids::{SqlPage, as_json, of_dialect, with_ids};
use crate::sql::text_columns::escape;
use crate::sql::{SqlPool, reading, to_ms, writing};

/// How many hexadecimal digits of an id say when it was made, in milliseconds: the first ones.
const DIGITS_OF_TIME: usize = 12;

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

/// `$1` user, `$2` and `$3` status and id of the last one of the page before, `$4` most rows. In the order of
/// the index `jobs_ended_of_user`: in that of ids alone, PostgreSQL would sort all of the user's for each
/// page.
pub(super) const ENDED_OF: &str = concat!(
    "SELECT status, id FROM jobs WHERE user_id = $1 AND ",
    has_ended!(),
    " AND (status, id) > ($2, $3) ORDER BY status, id LIMIT $4"
);

/// `$1` how many are newer. Of millions that are passed over PostgreSQL reads the index alone.
pub(super) const NTH_NEWEST: &str =
    concat!("SELECT id FROM jobs WHERE ", has_ended!(), " ORDER BY id DESC LIMIT 1 OFFSET $1");

const REMOVE: [&str; 2] = with_ids!("DELETE FROM jobs WHERE id", "AND ", has_ended!());

pub(super) const OLDEST: &str =
    concat!("SELECT finished_at FROM jobs WHERE ", has_ended!(), " ORDER BY id LIMIT 1");

pub(super) async fn ended_before(
    pool: &SqlPool,
    before: SystemTime,
    from: Option<&str>,
    most: u32,
) -> SqlPage {
    let before = to_ms(before);
    let last = format!("{:0width$x}", before.clamp(0, (1 << 48) - 1), width = DIGITS_OF_TIME);
    let ids: Vec<String> = reading!(pool, db => {
        let query = sqlx::query_scalar(ENDED_BEFORE).bind(from.unwrap_or_default()).bind(&last);
        query.bind(before).bind(i64::from(most)).fetch_all(db)
    })?;
    let next = ids.last().filter(|_| ids.len() >= most as usize).cloned();
    Ok(EndedPage { items: ids.into_iter().map(item).collect(), next })
}

/// A place between two is `<status>:<id>`.
pub(super) async fn ended_of(pool: &SqlPool, user_id: &str, from: Option<&str>, most: u32) -> SqlPage {
    let (status, id) = from.and_then(|from| from.split_once(':')).unwrap_or_default();
    let rows: Vec<(String, String)> = reading!(pool, db => {
        let query = sqlx::query_as(ENDED_OF).bind(escape(user_id)).bind(status).bind(id);
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    let last = rows.last().filter(|_| rows.len() >= most as usize);
    let next = last.map(|(status, id)| format!("{status}:{id}"));
    Ok(EndedPage { items: rows.into_iter().map(|(_, id)| item(id)).collect(), next })
}

fn item(id: String) -> EndedItem {
    EndedItem { id, job_id: None }
}

pub(super) async fn remove(pool: &SqlPool, ids: &[String]) -> sqlx::Result<u64> {
    let (sql, ids) = (of_dialect(pool, REMOVE), as_json(ids.iter()));
    writing!(pool, db => {
        sqlx::query(sql).bind(&ids).execute(db).map_ok(|done| done.rows_affected())
    })
}

pub(super) async fn nth_newest(pool: &SqlPool, newer: i64) -> sqlx::Result<Option<i64>> {
    let id: Option<String> =
        reading!(pool, db => sqlx::query_scalar(NTH_NEWEST).bind(newer).fetch_optional(db))?;
    Ok(id.and_then(|id| i64::from_str_radix(id.get(..DIGITS_OF_TIME)?, 16).ok()))
}
