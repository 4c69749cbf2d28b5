//! What is written about runs, and how many of them in one commit.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::{PgPool, SqliteConnection};

use crate::group_commit::ByteSize;
use crate::sql::commit::Write;
use crate::sql::{SqlPool, Sqlite, reading};

/// What is written.
#[derive(Debug)]
pub(super) enum Entry {
    Event(EventRow),
    Record(RecordRow),
}

/// What stands in the database under the key of a write.
#[derive(Debug)]
pub(super) enum Kept {
    /// What was written.
    Ours,
    /// What was there before.
    Another,
}

#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) run_id: String,
    pub(super) sequence: i64,
    pub(super) writer: Arc<str>,
    pub(super) event: String,
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct RecordRow {
    pub(super) run_id: String,
    pub(super) request_id: String,
    pub(super) user_id: Option<String>,
    pub(super) job_id: Option<String>,
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
    pub(super) outcome: String,
}

impl ByteSize for Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.event.len(),
            Self::Record(record) => record.outcome.len(),
        }
    }
}

impl Write for Entry {
    type Answer = Kept;

    async fn commit(pool: &SqlPool, entries: &[Self]) -> Result<Vec<Kept>, sqlx::Error> {
        let inserted = match pool {
            SqlPool::Postgres(pool) => write_to_postgres(pool, entries).await?,
            SqlPool::Sqlite(pools) => write_to_sqlite(pools, entries).await?,
        };
        let events = entries.iter().filter(|entry| matches!(entry, Self::Event(_))).count() as u64;
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            kept.push(match entry {
                // Events never change, so what stands there now is what stood there at the commit.
                Self::Event(event) if inserted < events => event.find_in(pool).await?,
                Self::Event(_) | Self::Record(_) => Kept::Ours,
            });
        }
        Ok(kept)
    }
}

impl EventRow {
    async fn find_in(&self, pool: &SqlPool) -> Result<Kept, sqlx::Error> {
        let sql = "SELECT event FROM run_events WHERE run_id = $1 AND sequence = $2 AND writer = $3";
        let event: Option<String> = reading!(pool, db => {
            let query = sqlx::query_scalar(sql).bind(&self.run_id).bind(self.sequence).bind(&*self.writer);
            query.fetch_optional(db)
        })?;
        Ok(if event.as_ref() == Some(&self.event) { Kept::Ours } else { Kept::Another })
    }
}

/// Says how many events were inserted.
async fn write_to_sqlite(pools: &Sqlite, entries: &[Entry]) -> Result<u64, sqlx::Error> {
    if let [entry] = entries {
        // One statement is a transaction by itself: beginning and ending one would be two more turns of the thread
        // that SQLite runs on.
        let mut writer = pools.writer().acquire().await?;
        return entry.insert_into_sqlite(&mut writer).await;
    }
    let mut transaction = pools.writer().begin_with("BEGIN IMMEDIATE").await?;
    let mut inserted = 0;
    for entry in entries {
        inserted += entry.insert_into_sqlite(&mut transaction).await?;
    }
    transaction.commit().await?;
    Ok(inserted)
}

impl Entry {
    /// Says how many events were inserted.
    async fn insert_into_sqlite(&self, connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
        match self {
            Self::Event(event) => insert_into_sqlite(connection, event).await,
            Self::Record(record) => upsert_into_sqlite(connection, record).await.map(|()| 0),
        }
    }
}

async fn insert_into_sqlite(connection: &mut SqliteConnection, event: &EventRow) -> Result<u64, sqlx::Error> {
    let sql = "INSERT INTO run_events (run_id, sequence, writer, event) VALUES ($1, $2, $3, $4) \
               ON CONFLICT DO NOTHING";
    let inserted = sqlx::query(sql)
        .bind(&event.run_id)
        .bind(event.sequence)
        .bind(&*event.writer)
        .bind(&event.event)
        .execute(&mut *connection)
        .await?;
    Ok(inserted.rows_affected())
}

async fn upsert_into_sqlite(
    connection: &mut SqliteConnection,
    record: &RecordRow,
) -> Result<(), sqlx::Error> {
    let sql = "INSERT OR REPLACE INTO run_records \
               (run_id, request_id, user_id, job_id, started_at, finished_at, outcome) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(sql)
        .bind(&record.run_id)
        .bind(&record.request_id)
        .bind(&record.user_id)
        .bind(&record.job_id)
        .bind(record.started_at)
        .bind(record.finished_at)
        .bind(&record.outcome)
        .execute(&mut *connection)
        .await
        .map(drop)
}

/// Says how many events were inserted. Each of the two statements is a transaction of its own: either may be
/// repeated.
async fn write_to_postgres(pool: &PgPool, entries: &[Entry]) -> Result<u64, sqlx::Error> {
    let mut events = Vec::new();
    // One statement cannot write a row twice; the last one counts.
    let mut records = HashMap::new();
    for entry in entries {
        match entry {
            Entry::Event(event) => events.push(event),
            Entry::Record(record) => drop(records.insert(&record.run_id, record)),
        }
    }
    if !records.is_empty() {
        upsert_into_postgres(pool, &records.into_values().collect::<Vec<_>>()).await?;
    }
    if events.is_empty() { Ok(0) } else { insert_into_postgres(pool, &events).await }
}

async fn insert_into_postgres(pool: &PgPool, events: &[&EventRow]) -> Result<u64, sqlx::Error> {
    let sql = "INSERT INTO run_events (run_id, sequence, writer, event) \
               SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::text[], $4::text[]) \
               ON CONFLICT DO NOTHING";
    let inserted = sqlx::query(sql)
        .bind(column(events, |event| &*event.run_id))
        .bind(column(events, |event| event.sequence))
        .bind(column(events, |event| &*event.writer))
        .bind(column(events, |event| &*event.event))
        .execute(pool)
        .await?;
    Ok(inserted.rows_affected())
}

async fn upsert_into_postgres(pool: &PgPool, records: &[&RecordRow]) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO run_records \
               (run_id, request_id, user_id, job_id, started_at, finished_at, outcome) \
               SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], \
                                    $5::bigint[], $6::bigint[], $7::text[]) \
               ON CONFLICT (run_id) DO UPDATE SET request_id = excluded.request_id, \
               user_id = excluded.user_id, job_id = excluded.job_id, started_at = excluded.started_at, \
               finished_at = excluded.finished_at, outcome = excluded.outcome";
    sqlx::query(sql)
        .bind(column(records, |record| &*record.run_id))
        .bind(column(records, |record| &*record.request_id))
        .bind(column(records, |record| record.user_id.as_deref()))
        .bind(column(records, |record| record.job_id.as_deref()))
        .bind(column(records, |record| record.started_at))
        .bind(column(records, |record| record.finished_at))
        .bind(column(records, |record| &*record.outcome))
        .execute(pool)
        .await
        .map(drop)
}

/// One column of many rows.
fn column<'a, R, C>(rows: &[&'a R], of: impl Fn(&'a R) -> C) -> Vec<C> {
    rows.iter().map(|row| of(row)).collect()
}
