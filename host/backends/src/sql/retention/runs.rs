//! Runs that have ended: those that have a record, unless that says that they are under way or wait
//! (`unended.rs`). Each goes with its record, its journal, and what its tools were answered over HTTP.
//!
//! Ids of runs do not grow with time everywhere (those of jobs on Redis are digests), so the way goes along
//! the index of when runs ended. Months of runs that are dropped as a whole are in `drop_partitions.rs`.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage};
use futures::TryFutureExt as _;

use sqlx::AssertSqlSafe;

use super::drop_partitions::Month;
use super::ids::{SqlPage, as_json, of_dialect, with_ids};
use super::recordings;
use super::unended::{UNDER_WAY, WAITS_FOR_SOMEBODY, run_has_ended, run_is_under_way};
use crate::sql::text_columns::{escape, unescape};
use crate::sql::transaction::{SqlTransaction, in_transaction};
use crate::sql::{SqlPool, answer, reading, to_ms};

/// Run, job and end of a record.
type Row = (String, Option<String>, i64);

/// The records of which tables are looked through. `$1` ended before, `$2` and `$3` end and id of the last
/// one of the page before, `$4` most rows.
const ENDED_BEFORE: [&str; 2] = [
    "SELECT run_id, job_id, finished_at FROM ",
    "finished_at < $1 AND finished_at >= $2 AND (finished_at > $2 OR run_id > $3) \
     ORDER BY finished_at, run_id LIMIT $4",
];

/// Along the index of the runs of each user. `$1` user, `$2` and `$3` end and id of the last one of the page
/// before, `$4` most rows.
pub(super) const ENDED_OF: &str = concat!(
    "SELECT run_id, job_id, finished_at FROM run_records WHERE user_id = $1 AND NOT ",
    run_is_under_way!(),
    " AND finished_at >= $2 AND (finished_at > $2 OR run_id > $3) ORDER BY finished_at, run_id LIMIT $4"
);

/// `$1` how many are newer. Along an index of records that have ended: those of runs that wait, most of whose
/// times lie ahead, are not counted, and a million of them cost nothing.
pub(super) const NTH_NEWEST: &str = concat!(
    "SELECT finished_at FROM run_records WHERE ",
    run_has_ended!(),
    " ORDER BY finished_at DESC LIMIT 1 OFFSET $1"
);

/// Deletes the events of runs that have ended only.
const REMOVE_EVENTS: [&str; 2] = with_ids!(
    "DELETE FROM run_events WHERE run_id IN (SELECT run_id FROM run_records WHERE run_id",
    "AND NOT ",
    run_is_under_way!(),
    ")"
);

const REMOVE_RECORDS: [&str; 2] =
    with_ids!("DELETE FROM run_records WHERE run_id", "AND NOT ", run_is_under_way!());

/// Which of these runs have ended and have recordings.
const RECORDED: [&str; 2] = with_ids!(
    "SELECT DISTINCT run_id FROM http_recordings h WHERE run_id",
    "AND EXISTS (SELECT 1 FROM run_records r WHERE r.run_id = h.run_id AND NOT ",
    run_is_under_way!(),
    ")"
);

pub(super) const OLDEST: &str =
    concat!("SELECT finished_at FROM run_records WHERE ", run_has_ended!(), " ORDER BY finished_at LIMIT 1");

/// A place between two ids is `<end in ms>:<id>`. `over` has the months that are over, when the runs of
/// others wait for the end of theirs.
pub(super) async fn ended_before(
    pool: &SqlPool,
    before: SystemTime,
    from: Option<&str>,
    most: u32,
    over: Option<&[Month]>,
) -> SqlPage {
    let [select, condition] = ENDED_BEFORE;
    let records = over.map_or_else(|| "run_records".into(), records_of);
    let sql = format!("{select}{records} WHERE NOT {WAITS_FOR_SOMEBODY} AND NOT {UNDER_WAY} AND {condition}");
    let (end, id) = place(from);
    let rows: Vec<Row> = reading!(pool, db => {
        let query = sqlx::query_as(AssertSqlSafe(sql.as_str())).bind(to_ms(before)).bind(end).bind(escape(id));
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    Ok(page(rows, most))
}

/// The records of these months, and those of no month. Their own indexes give them in order.
fn records_of(months: &[Month]) -> String {
    let tables = months.iter().map(Month::records).chain(["run_records_rest".into()]);
    let records = tables.map(|table| format!("SELECT run_id, job_id, finished_at, outcome FROM {table}"));
    format!("({}) AS records", records.collect::<Vec<_>>().join(" UNION ALL "))
}

pub(super) async fn ended_of(pool: &SqlPool, user_id: &str, from: Option<&str>, most: u32) -> SqlPage {
    let (end, id) = place(from);
    let rows: Vec<Row> = reading!(pool, db => {
        let query = sqlx::query_as(ENDED_OF).bind(escape(user_id)).bind(end).bind(escape(id));
        query.bind(i64::from(most)).fetch_all(db)
    })?;
    Ok(page(rows, most))
}

/// Where a page begins: behind that end and id.
fn place(from: Option<&str>) -> (i64, &str) {
    let (end, id) = from.and_then(|from| from.split_once(':')).unwrap_or_default();
    (end.parse().unwrap_or(i64::MIN), id)
}

fn page(rows: Vec<Row>, most: u32) -> EndedPage {
    let rows: Vec<Row> =
        rows.into_iter().map(|(id, job, end)| (unescape(id), job.map(unescape), end)).collect();
    let is_full = rows.len() >= most as usize;
    let next = rows.last().filter(|_| is_full).map(|(id, _, end)| format!("{end}:{id}"));
    let items = rows.into_iter().map(|(id, job_id, _)| EndedItem { id, job_id }).collect();
    EndedPage { items, next }
}

/// First the recordings, which are large, run by run; then all else in one transaction: a step that broke off
/// is made again, because the records are still there.
pub(super) async fn remove(pool: &SqlPool, ids: &[String]) -> sqlx::Result<u64> {
    let ids = as_json(ids.iter().map(|id| escape(id)));
    remove_recordings(pool, &ids).await?;
    answer(Box::pin(async {
        let mut transaction = SqlTransaction::begin(pool).await?;
        in_transaction!(transaction, db => {
            sqlx::query(of_dialect(pool, REMOVE_EVENTS)).bind(&ids).execute(db).map_ok(drop)
        })?;
        let removed = in_transaction!(transaction, db => {
            let query = sqlx::query(of_dialect(pool, REMOVE_RECORDS)).bind(&ids);
            query.execute(db).map_ok(|done| done.rows_affected())
        })?;
        transaction.commit().await.map(|()| removed)
    }))
    .await
}

async fn remove_recordings(pool: &SqlPool, ids: &str) -> sqlx::Result<()> {
    let recorded = of_dialect(pool, RECORDED);
    let recorded: Vec<String> = reading!(pool, db => sqlx::query_scalar(recorded).bind(ids).fetch_all(db))?;
    recordings::remove_of(pool, &recorded).await
}
