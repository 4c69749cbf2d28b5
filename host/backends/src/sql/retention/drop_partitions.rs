//! Months of runs that are over: dropped as whole tables, which costs next to nothing however many runs there
//! were. On PostgreSQL alone.
//!
//! A month is over a day after its end lies behind the bound, so that runs which began at its end have ended
//! before the bound too, and never before that day has come by the database's clock. Then it is looked
//! through in steps: for runs without a record, which have not ended, and for recordings, which lie in
//! another table. Runs that have to stay go to the default partition, and the month is dropped, in one
//! transaction. These are runs without a record or with one that says that they have not ended, runs that
//! ended after the bound, and runs of jobs that have not ended. Where the queue lies elsewhere these are all
//! that failed for a job: the default partition is swept row by row, and the queue is asked then. Where too
//! many have to stay, or too much, or the tables cannot be locked, the month's ended runs are removed row by
//! row instead (`runs.rs`).
//!
//! Until a month is over its runs stay, since removing them one by one is the work that dropping it saves:
//! see [`are_dropped_whole`].

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use agent_core::ports::{DropStep, RetentionBounds};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, PgConnection};

use super::partitions::{LIMIT_LOCKS, TABLES, execute};
use super::recordings;
use super::unended::UNDER_WAY;
use crate::sql::error::{describe, is_locked};
use crate::sql::from_row::from_row;
use crate::sql::{Postgres, SqlPool, answer, on_postgres, to_ms};

/// Runs that are kept for so long may stay for up to a month longer, so that they go with their month.
const LEAST_AGE: Duration = Duration::from_secs(28 * 24 * 3600);

/// How many runs are looked through in one step. Their recordings are removed one by one, with a flush each,
/// well within the lease of the sweep.
const STEP: i64 = 2000;

/// Most runs of a month that are moved to the default partition, so that it can be dropped.
const MOST_MOVED: usize = 1000;

/// How long the server works on a statement while it keeps everybody out: less than writers wait for an
/// answer.
const LIMIT_WORK: &str = "SET LOCAL statement_timeout = '3s'";

/// How often the tables' locks are tried for.
const TRIES: u32 = 3;

/// `$1` the bound, which counts as far as the time has come. The end of each month stands in its name; what
/// else is called like that, nobody knows.
const OVER: &str = "\
    SELECT name, \
           'run_' || lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0') AS first, \
           'run_' || lpad(to_hex((extract(epoch FROM month + interval '1 month') * 1000)::bigint), 12, '0') AS next, \
           to_regclass('run_events_' || name) IS NOT NULL AS has_events \
    FROM (SELECT right(c.relname, 7) AS name, \
                 CASE WHEN c.relname ~ '^run_records_[0-9]{4}_(0[1-9]|1[0-2])$' \
                      THEN to_date(right(c.relname, 7), 'YYYY_MM')::timestamp END AS month \
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
          WHERE i.inhparent = 'run_records'::regclass) AS months, clock \
    WHERE extract(epoch FROM month + interval '1 month 1 day') * 1000 <= LEAST($1, ms) ORDER BY name";

/// `$1` and `$2` ids between which runs lie whose jobs have not ended. Each of these states has an index: of
/// the few that wait or are held, and of the ids of runs that wait for somebody.
const OF_OPEN_JOBS: &str = "\
    SELECT run_id FROM jobs WHERE status = 'waiting' AND run_id >= $1 AND run_id < $2 \
    UNION ALL SELECT run_id FROM jobs WHERE status = 'active' AND run_id >= $1 AND run_id < $2 \
    UNION ALL SELECT run_id FROM jobs WHERE status = 'parked' AND run_id >= $1 AND run_id < $2";

/// Which runs go with their month.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Runs that ended before this time go.
    pub(super) before: SystemTime,
    /// A condition: records of runs that a job may go on with, which stay.
    pub(super) unless: &'static str,
}

from_row! {
    /// A month that is over: the first id of it, and of the one after it.
    #[derive(Debug)]
    pub(super) struct Month {
        name: String,
        first: String,
        next: String,
        has_events: bool,
    }
}

/// Where the next step goes on.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Place {
    /// The month that is done with; the one after it is at work.
    done: String,
    /// The last id that was looked at in that one.
    after: String,
    /// Records of the month so far.
    runs: u64,
    /// Runs of that month without a record.
    unended: Vec<String>,
    is_looked_through: bool,
    tries: u32,
}

from_row! {
    /// Findings of a look at some runs.
    #[derive(Debug)]
    struct Look {
        runs: i64,
        /// The last id; absent when these were the last ones.
        last: Option<String>,
        unended: Vec<String>,
    }
}

impl Month {
    pub(super) fn records(&self) -> String {
        format!("run_records_{}", self.name)
    }

    fn of(&self, table: &str) -> String {
        format!("{table}_{}", self.name)
    }
}

/// Whether runs wait for the end of their month. A number of runs to keep is kept row by row.
pub(super) fn are_dropped_whole(bounds: RetentionBounds) -> bool {
    bounds.count.is_none() && bounds.age.is_some_and(|age| age >= LEAST_AGE)
}

/// The months that are over, oldest first.
pub(super) async fn over(pool: &Postgres, before: SystemTime) -> sqlx::Result<Vec<Month>> {
    answer(async {
        on_postgres!(pool, Allowed, db => sqlx::query_as(OVER).bind(to_ms(before)).fetch_all(db))
    })
    .await
}

/// Looks through some runs of the first month that is over and not done with, or drops it.
pub(super) async fn drop_step(pool: &Postgres, bound: Bound, from: Option<&str>) -> sqlx::Result<DropStep> {
    let place: Place = from.and_then(|from| serde_json::from_str(from).ok()).unwrap_or_default();
    let months = over(pool, bound.before).await?;
    let month = months.into_iter().find(|month| month.has_events && month.name > place.done);
    let Some(month) = month else { return Ok(DropStep::default()) };
    let done = Place { done: month.name.clone(), ..Place::default() };
    if !place.is_looked_through {
        return Ok(go_on(0, &look_through(pool, bound, &month, place).await?.unwrap_or(done)));
    }
    match answer(Box::pin(drop_month(pool, bound, &month, &place.unended))).await {
        Ok(Some(moved)) => {
            let removed = place.runs.saturating_sub(moved);
            tracing::info!(month = month.name, removed, kept = moved, "a month of runs was dropped");
            Ok(go_on(removed, &done))
        }
        Ok(None) => Ok(go_on(0, &done)),
        Err(error) if is_locked(&error) && place.tries + 1 < TRIES => {
            Ok(go_on(0, &Place { tries: place.tries + 1, ..place }))
        }
        // Whatever keeps a month from being dropped is no reason to remove nothing else.
        Err(error) if is_refused(&error) => {
            let why = describe(&error);
            tracing::warn!(month = month.name, why, "a month of runs cannot be dropped and goes row by row");
            Ok(go_on(0, &done))
        }
        Err(error) => Err(error),
    }
}

/// Whether the database says no: the tables are held, belong to somebody else, or hold too much that has to
/// stay.
fn is_refused(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => true,
        sqlx::Error::Io(error) => error.kind() == ErrorKind::TimedOut,
        _ => false,
    }
}

fn go_on(removed: u64, place: &Place) -> DropStep {
    DropStep { removed, next: serde_json::to_string(place).ok() }
}

/// Where to go on; nothing when too many runs have to stay.
async fn look_through(
    pool: &Postgres,
    bound: Bound,
    month: &Month,
    mut place: Place,
) -> sqlx::Result<Option<Place>> {
    let [events, records] = TABLES.map(|table| month.of(table));
    let sql = format!(
        "WITH page AS MATERIALIZED ( \
             SELECT run_id FROM {records} WHERE run_id > $1 ORDER BY run_id LIMIT {STEP}), \
         bound AS MATERIALIZED ( \
             SELECT count(*) AS runs, CASE WHEN count(*) = {STEP} THEN max(run_id) END AS last FROM page) \
         SELECT runs, last, ARRAY( \
             SELECT e.run_id FROM {events} e \
             WHERE e.run_id > $1 AND e.run_id <= COALESCE(last, $2) AND e.sequence = 0 \
               AND NOT EXISTS (SELECT 1 FROM {records} r WHERE r.run_id = e.run_id) \
             LIMIT {MOST_MOVED} + 1) AS unended \
         FROM bound"
    );
    let look: Look = answer(async {
        on_postgres!(pool, Allowed, db => {
            let query = sqlx::query_as(AssertSqlSafe(sql.as_str())).bind(&place.after).bind(&month.next);
            query.fetch_one(db)
        })
    })
    .await?;
    place.unended.extend(look.unended);
    // One more than may be moved says that there are too many.
    if place.unended.len() > MOST_MOVED {
        return Ok(None);
    }
    remove_recordings(pool, bound, month, (&place.after, look.last.as_deref())).await?;
    place.runs += look.runs.unsigned_abs();
    place.is_looked_through = look.last.is_none();
    place.after = look.last.unwrap_or_default();
    Ok(Some(place))
}

/// Removes the recordings of runs that are about to go, whether with their month or row by row, and of those
/// that left neither a record nor an event, which nothing else would find.
async fn remove_recordings(
    pool: &Postgres,
    bound: Bound,
    month: &Month,
    (after, last): (&str, Option<&str>),
) -> sqlx::Result<()> {
    let [events, records] = TABLES.map(|table| month.of(table));
    let unless = bound.unless;
    let sql = format!(
        "SELECT DISTINCT h.run_id FROM http_recordings h LEFT JOIN {records} r ON r.run_id = h.run_id \
         WHERE h.run_id >= $1 AND h.run_id > $3 AND h.run_id <= $4 AND h.run_id < $2 \
           AND CASE WHEN r.run_id IS NULL THEN NOT EXISTS (SELECT 1 FROM {events} e WHERE e.run_id = h.run_id) \
               ELSE r.finished_at < $5 AND NOT {unless} AND NOT {UNDER_WAY} END \
           AND h.run_id NOT IN ({OF_OPEN_JOBS})"
    );
    let recorded: Vec<String> = answer(async {
        on_postgres!(pool, Allowed, db => {
            let query = sqlx::query_scalar(AssertSqlSafe(sql.as_str())).bind(&month.first).bind(&month.next);
            query.bind(after).bind(last.unwrap_or(&month.next)).bind(to_ms(bound.before)).fetch_all(db)
        })
    })
    .await?;
    recordings::remove_of(&SqlPool::Postgres(pool.clone()), &recorded).await
}

/// Drops the month and says how many of its records it has moved; nothing when too many runs have to stay.
async fn drop_month(
    pool: &Postgres,
    bound: Bound,
    month: &Month,
    unended: &[String],
) -> sqlx::Result<Option<u64>> {
    let mut transaction = pool.begin().await?;
    let db = transaction.connection();
    sqlx::raw_sql(LIMIT_LOCKS).execute(&mut *db).await?;
    for table in TABLES {
        // In the order in which everybody locks them. Whoever is in a partition holds its table too.
        execute(db, format!("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")).await?;
    }
    // From here on everybody waits for each of these.
    sqlx::raw_sql(LIMIT_WORK).execute(&mut *db).await?;
    let staying = runs_that_stay(db, bound, month, unended).await?;
    if staying.len() > MOST_MOVED {
        transaction.end("ROLLBACK").await?;
        return Ok(None);
    }
    let mut moved = 0;
    for table in TABLES {
        let partition = month.of(table);
        execute(db, format!("ALTER TABLE {table} DETACH PARTITION {partition}")).await?;
        let sql = AssertSqlSafe(format!(
            "INSERT INTO {table}_rest SELECT * FROM {partition} WHERE run_id = ANY($1)"
        ));
        let inserted = sqlx::query(sql).bind(&staying).execute(&mut *db).await?;
        // Of the records, which are the last one of the tables.
        moved = inserted.rows_affected();
        execute(db, format!("DROP TABLE {partition}")).await?;
    }
    transaction.end("COMMIT").await?;
    Ok(Some(moved))
}

/// The runs of a month that have to stay, with those that were found before.
async fn runs_that_stay(
    db: &mut PgConnection,
    bound: Bound,
    month: &Month,
    unended: &[String],
) -> sqlx::Result<Vec<String>> {
    let sql = format!(
        "SELECT run_id FROM {} WHERE finished_at >= $3 OR {} OR {UNDER_WAY} \
         UNION {OF_OPEN_JOBS} UNION SELECT UNNEST($4::text[]) LIMIT {MOST_MOVED} + 1",
        month.records(),
        bound.unless
    );
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(&month.first).bind(&month.next);
    query.bind(to_ms(bound.before)).bind(unended).fetch_all(db).await
}
