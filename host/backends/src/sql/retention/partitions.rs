//! Partitions of the tables of runs: one a month, on PostgreSQL. `drop_partitions.rs` drops them.
//!
//! Both tables are `PARTITION BY RANGE (run_id)` (migration 15). Ids that this program makes begin with their
//! time, so a month is a range of ids, from the first possible one of the month on. Months are made ahead, by
//! each process that starts and by whoever sweeps. Whatever no month was made for lies in the DEFAULT
//! partition, `…_rest`, and is swept row by row: so a month that could not be made fails no write.
//!
//! Making a month takes what lies in its range out of the default partition, in the same transaction: digests
//! that by chance begin like a time of that month (ids of jobs on Redis, one in 100,000). PostgreSQL then
//! checks that nothing else is left there, which reads all of that partition under a lock that keeps
//! everybody out. Where it is small, that is a moment. Where it is large, a constraint is added first that
//! says so and is validated while others write; with it nothing has to be read under the lock. From when it
//! is added until the month is there, the constraint refuses new ids of that range, so this way is for months
//! that begin a day from now or later: until then only a digest is refused, by a failure that writers try
//! again after.
//!
//! Whichever way, the table itself is locked and not the default partition alone. A statement that was
//! planned before the month was there, and waited for the default partition, would go on by its plan: it
//! would look for the rows where they are no more, see an empty journal or no fence, and have an insert
//! refused.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgTransaction};

use crate::sql::error::is_locked;
use crate::sql::from_row::from_row;
use crate::sql::time_limit::{NO_LIMIT, in_time};
use crate::sql::{ANSWER_TIMEOUT, Postgres};

/// What is partitioned.
pub(super) const TABLES: [&str; 2] = ["run_events", "run_records"];

/// How long a change of the tables waits for their locks, while writers wait behind it. Less than writers
/// wait for an answer, and more than the second (`deadlock_timeout`) after which PostgreSQL ends an automatic
/// vacuum that is in the way.
pub(in crate::sql) const LIMIT_LOCKS: &str = "SET LOCAL lock_timeout = '2s'";

/// How long the server works on a statement while it keeps everybody out. It would not notice that nobody
/// waits for the answer any more.
const LIMIT_WORK: &str = "SET LOCAL statement_timeout = '4s'";

/// `$1` table. The months that are to be there and are not: this one and the next two.
const MISSING: &str = "\
    SELECT to_char(month, 'YYYY_MM') AS name, \
           'run_' || lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0') AS first, \
           'run_' || lpad(to_hex((extract(epoch FROM month + interval '1 month') * 1000)::bigint), 12, '0') AS next, \
           extract(epoch FROM month) * 1000 - ms > 86400000 AS is_days_away \
    FROM clock, date_trunc('month', to_timestamp(ms / 1000) AT TIME ZONE 'UTC') AS this, \
         generate_series(this, this + interval '2 months', interval '1 month') AS month \
    WHERE to_regclass($1 || '_' || to_char(month, 'YYYY_MM')) IS NULL ORDER BY name";

/// `$1` table. What making a month left behind that broke off.
const LEFT_BEHIND: &str = "\
    SELECT conname::text FROM pg_constraint \
    WHERE conrelid = to_regclass($1 || '_rest') AND conname LIKE $1 || '\\_rest\\_without\\_%'";

/// Up to how many bytes a default partition is read and taken out of under a lock, which takes some tenths of
/// a second. With what is stored out of line (TOAST), which is copied too.
const SMALL: i64 = 16 << 20;

/// Most rows that are taken out of a large default partition. More than digests come to by chance.
const MOST_TAKEN_OUT: i64 = 100_000;

/// One makes months at a time: the constraint of the other would look left behind. Held by a transaction on a
/// connection of its own: behind a pooler a session is another client's in a moment, which would hold its
/// locks and could not free them.
const LOCK: i64 = 0x6168_6d6f_6e74_6873;

/// How long making months may take where large tables are read. What breaks off changes nothing.
const PATIENCE: Duration = Duration::from_secs(600);

/// Whether reading a large table is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sql) enum LargeTables {
    Read,
    /// A service that starts had better begin to serve.
    Leave,
}

from_row! {
    /// A month that is not there: the first id of it, and of the one after it.
    #[derive(Debug)]
    struct MissingMonth {
        name: String,
        first: String,
        next: String,
        is_days_away: bool,
    }
}

/// Makes the months that are missing, as far as that can be done now; the next one who tries makes the
/// others. Any number of processes may do so at once: one does, and the others go on. A failure is logged and
/// harms nobody.
pub(in crate::sql) async fn make_months_ahead(pool: &Postgres, large: LargeTables) {
    let patience = match large {
        LargeTables::Read => PATIENCE,
        LargeTables::Leave => ANSWER_TIMEOUT,
    };
    let made = in_time(patience, async {
        let mut holder = pool.connect_directly().await?;
        let mut lock = holder.begin().await?;
        let taken = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(LOCK);
        if taken.fetch_one(&mut *lock).await? {
            let mut connection = pool.connect_directly().await?;
            for table in TABLES {
                make_missing(&mut connection, table, large).await?;
            }
            connection.close().await?;
        }
        lock.rollback().await?;
        holder.close().await
    });
    match Box::pin(made).await {
        Ok(()) => {}
        Err(error) if is_locked(&error) => {
            tracing::info!("partitions of coming months wait: somebody holds the tables of runs");
        }
        Err(error) => {
            tracing::warn!(%error, "partitions of coming months were not made; runs go to the default partition");
        }
    }
}

async fn make_missing(
    connection: &mut PgConnection,
    table: &'static str,
    large: LargeTables,
) -> sqlx::Result<()> {
    drop_constraints(connection, table).await?;
    let missing: Vec<MissingMonth> = sqlx::query_as(MISSING).bind(table).fetch_all(&mut *connection).await?;
    for month in missing {
        if !make_at_once(connection, table, &month).await?
            && large == LargeTables::Read
            && !make_from_large(connection, table, &month).await?
        {
            tracing::debug!(table, month = month.name, "its runs stay in the default partition");
        }
    }
    Ok(())
}

/// Makes a month from a small default partition. False when that is large.
async fn make_at_once(
    connection: &mut PgConnection,
    table: &'static str,
    month: &MissingMonth,
) -> sqlx::Result<bool> {
    let mut transaction = begin(connection, table).await?;
    if is_there(&mut transaction, table, month).await? {
        return Ok(true);
    }
    let size = AssertSqlSafe(format!("SELECT pg_table_size('{table}_rest')"));
    let size: i64 = sqlx::query_scalar(size).fetch_one(&mut *transaction).await?;
    if size > SMALL {
        return Ok(false);
    }
    execute(&mut transaction, LIMIT_WORK.into()).await?;
    let lock = format!("LOCK TABLE ONLY {table}, ONLY {table}_rest IN ACCESS EXCLUSIVE MODE");
    execute(&mut transaction, lock).await?;
    take_out(&mut transaction, table, month).await?;
    attach(&mut transaction, table, month).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Makes a month that is days away from a large default partition. False when that cannot be done.
async fn make_from_large(
    connection: &mut PgConnection,
    table: &'static str,
    month: &MissingMonth,
) -> sqlx::Result<bool> {
    let MissingMonth { name, first, next, .. } = month;
    let constraint = format!("{table}_rest_without_{name}");
    if !month.is_days_away || has_many(connection, table, month).await? {
        return Ok(false);
    }
    let mut transaction = begin(connection, table).await?;
    if is_there(&mut transaction, table, month).await? {
        return Ok(true);
    }
    let add = format!(
        "ALTER TABLE {table}_rest ADD CONSTRAINT {constraint} CHECK (run_id < '{first}' OR run_id >= '{next}') NOT VALID"
    );
    execute(&mut transaction, add).await?;
    transaction.commit().await?;
    let made = make_validated(connection, table, month, &constraint).await;
    if made.is_err() {
        // Else it waits for whoever makes months next.
        let _broken_connection = drop_constraints(connection, table).await;
    }
    made.map(|()| true)
}

/// Statements find the rows in their old place until the table is locked, and in the new one once it is free
/// again.
async fn make_validated(
    connection: &mut PgConnection,
    table: &'static str,
    month: &MissingMonth,
    constraint: &str,
) -> sqlx::Result<()> {
    let mut transaction = begin(connection, table).await?;
    take_out(&mut transaction, table, month).await?;
    execute(&mut transaction, format!("ALTER TABLE {table}_rest VALIDATE CONSTRAINT {constraint}")).await?;
    execute(&mut transaction, format!("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")).await?;
    attach(&mut transaction, table, month).await?;
    execute(&mut transaction, format!("ALTER TABLE {table}_rest DROP CONSTRAINT {constraint}")).await?;
    transaction.commit().await
}

/// Begins a transaction that keeps out whoever else makes or drops months of that table, and nobody who reads
/// or writes.
async fn begin<'c>(connection: &'c mut PgConnection, table: &'static str) -> sqlx::Result<PgTransaction<'c>> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(NO_LIMIT).execute(&mut *transaction).await?;
    sqlx::raw_sql(LIMIT_LOCKS).execute(&mut *transaction).await?;
    execute(&mut transaction, format!("LOCK TABLE ONLY {table} IN SHARE UPDATE EXCLUSIVE MODE")).await?;
    Ok(transaction)
}

async fn is_there(
    transaction: &mut PgTransaction<'_>,
    table: &'static str,
    month: &MissingMonth,
) -> sqlx::Result<bool> {
    let partition = format!("{table}_{}", month.name);
    let found = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(partition);
    found.fetch_one(&mut **transaction).await
}

/// Whether rows of the month are more than chance explains: it is the month in which the tables were first
/// partitioned.
async fn has_many(
    connection: &mut PgConnection,
    table: &'static str,
    month: &MissingMonth,
) -> sqlx::Result<bool> {
    let sql = format!(
        "SELECT count(*) > {MOST_TAKEN_OUT} FROM (SELECT FROM {table}_rest WHERE run_id >= $1 AND run_id < $2 \
         LIMIT {MOST_TAKEN_OUT} + 1) AS rows"
    );
    let count = sqlx::query_scalar(AssertSqlSafe(sql)).bind(&month.first).bind(&month.next);
    count.fetch_one(connection).await
}

/// Makes the table of a month, with what the default partition has of it.
async fn take_out(
    transaction: &mut PgTransaction<'_>,
    table: &'static str,
    MissingMonth { name, first, next, .. }: &MissingMonth,
) -> sqlx::Result<()> {
    execute(transaction, format!("CREATE TABLE {table}_{name} (LIKE {table} INCLUDING ALL)")).await?;
    let sql = format!(
        "WITH taken AS (DELETE FROM {table}_rest WHERE run_id >= '{first}' AND run_id < '{next}' RETURNING *) \
         INSERT INTO {table}_{name} SELECT * FROM taken"
    );
    execute(transaction, sql).await
}

async fn attach(
    transaction: &mut PgTransaction<'_>,
    table: &'static str,
    MissingMonth { name, first, next, .. }: &MissingMonth,
) -> sqlx::Result<()> {
    let range = format!("FROM ('{first}') TO ('{next}')");
    execute(transaction, format!("ALTER TABLE {table} ATTACH PARTITION {table}_{name} FOR VALUES {range}"))
        .await
}

/// Drops constraints that were left behind, which would refuse the runs of their month once it begins.
async fn drop_constraints(connection: &mut PgConnection, table: &'static str) -> sqlx::Result<()> {
    let find = || sqlx::query_scalar::<_, String>(LEFT_BEHIND).bind(table);
    if find().fetch_all(&mut *connection).await?.is_empty() {
        return Ok(());
    }
    let mut transaction = begin(connection, table).await?;
    for constraint in find().fetch_all(&mut *transaction).await? {
        execute(&mut transaction, format!("ALTER TABLE {table}_rest DROP CONSTRAINT \"{constraint}\""))
            .await?;
    }
    transaction.commit().await
}

/// Carries out a statement about tables, which takes no parameters. What stands in it are names and ids that
/// are made here and by [`MISSING`], or names of months that `drop_partitions.rs` has looked at.
pub(super) async fn execute(db: &mut PgConnection, sql: String) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(db).await.map(drop)
}
