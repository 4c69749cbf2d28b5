//! What is written about runs, and how many of them in one commit.
//!
//! The first event of an append decides about all of it. Journals have no gaps, so where the first one was free the
//! others are. Where it was written before, in the same epoch and with the same text, so were they if the last one was.

use std::collections::{HashMap, HashSet};

use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::group_commit::ByteSize;
use crate::sql::commit::Write;
use crate::sql::values::{ROWS_AT_ONCE, values};
use crate::sql::{Postgres, SqlPool, Sqlite, on_postgres};

/// What is written.
#[derive(Debug)]
pub(super) enum Entry {
    Append(AppendRow),
    Record(RecordRow),
    /// Both, and the record only if the events stand there.
    End(AppendRow, RecordRow),
}

/// What stands in the database under the key of a write.
#[derive(Debug)]
pub(super) enum StoredUnderKey {
    /// What was written.
    Ours,
    /// What was there before.
    Another,
    /// Events of a later claim of the run.
    Fenced,
}

/// Consecutive events of a run, at least one.
#[derive(Debug)]
pub(super) struct AppendRow {
    pub(super) run_id: String,
    pub(super) epoch: i64,
    /// Number of the first one.
    pub(super) first: i64,
    pub(super) events: Vec<String>,
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
            Self::Append(append) => append.bytes(),
            Self::Record(record) => record.outcome.len(),
            Self::End(append, record) => append.bytes() + record.outcome.len(),
        }
    }
}

impl Write for Entry {
    type Answer = StoredUnderKey;

    async fn commit(pool: &SqlPool, entries: &[Self]) -> Result<Vec<StoredUnderKey>, sqlx::Error> {
        let inserted = match pool {
            SqlPool::Postgres(pool) => write_to_postgres(pool, entries).await?,
            SqlPool::Sqlite(pools) => write_to_sqlite(pools, entries).await?,
        };
        let kept_out: Vec<(usize, &AppendRow)> = entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| Some((index, entry.append()?)))
            .filter(|(index, _)| !inserted.contains(index))
            .collect();
        let mut kept: Vec<StoredUnderKey> = entries.iter().map(|_| StoredUnderKey::Ours).collect();
        // Events never change, so what stands there now is what stood there at the commit.
        for ((index, _), found) in kept_out.iter().zip(find_all(pool, &kept_out).await?) {
            if let Some(kept) = kept.get_mut(*index) {
                *kept = found;
            }
        }
        if let SqlPool::Postgres(pool) = pool {
            // SQLite has committed them with their events.
            let written = entries.iter().zip(&kept).filter(|(_, kept)| matches!(kept, StoredUnderKey::Ours));
            upsert_into_postgres(pool, &last_records(written.map(|(entry, _)| entry))).await?;
        }
        Ok(kept)
    }
}

/// What stands where an append was to stand: its place in the list of appends, epoch and text of the event where it was to
/// begin, the same of the event where it was to end, and the highest epoch of the run.
#[derive(Debug, sqlx::FromRow)]
struct FoundRow {
    number: i64,
    epoch: Option<i64>,
    event: Option<String>,
    last_epoch: Option<i64>,
    last_event: Option<String>,
    highest: Option<i64>,
}

const FIND_IN_POSTGRES: &str = "\
    SELECT a.number, e.epoch, e.event, l.epoch AS last_epoch, l.event AS last_event, \
           (SELECT MAX(h.epoch) FROM run_events h WHERE h.run_id = a.run_id) AS highest \
    FROM UNNEST($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS a (number, run_id, first, last) \
    LEFT JOIN run_events e ON e.run_id = a.run_id AND e.sequence = a.first \
    LEFT JOIN run_events l ON l.run_id = a.run_id AND l.sequence = a.last";

/// `$1` an array of `[run, number of the first event, number of the last one]`.
const FIND_IN_SQLITE: &str = "\
    SELECT a.key AS number, e.epoch, e.event, l.epoch AS last_epoch, l.event AS last_event, \
           (SELECT MAX(h.epoch) FROM run_events h WHERE h.run_id = a.value ->> 0) AS highest \
    FROM json_each($1) AS a \
    LEFT JOIN run_events e ON e.run_id = a.value ->> 0 AND e.sequence = a.value ->> 1 \
    LEFT JOIN run_events l ON l.run_id = a.value ->> 0 AND l.sequence = a.value ->> 2";

/// What kept each of these appends out, in one statement however many they are.
async fn find_all(
    pool: &SqlPool,
    appends: &[(usize, &AppendRow)],
) -> Result<Vec<StoredUnderKey>, sqlx::Error> {
    if appends.is_empty() {
        return Ok(vec![]);
    }
    let rows: Vec<FoundRow> = match pool {
        SqlPool::Postgres(pool) => on_postgres!(pool, Allowed, db => {
            sqlx::query_as(FIND_IN_POSTGRES)
                .bind((0_i64..).take(appends.len()).collect::<Vec<_>>())
                .bind(column(appends, |(_, append)| &*append.run_id))
                .bind(column(appends, |(_, append)| append.first))
                .bind(column(appends, |(_, append)| append.last()))
                .fetch_all(db)
        })?,
        SqlPool::Sqlite(pools) => {
            let places = column(appends, |(_, append)| (&append.run_id, append.first, append.last()));
            let places = serde_json::to_string(&places).map_err(|error| sqlx::Error::Encode(error.into()))?;
            sqlx::query_as(FIND_IN_SQLITE).bind(places).fetch_all(pools.readers()).await?
        }
    };
    let found: HashMap<i64, FoundRow> = rows.into_iter().map(|row| (row.number, row)).collect();
    let kept = (0_i64..).zip(appends).map(|(number, (_, append))| append.compare(found.get(&number)));
    Ok(kept.collect())
}

impl AppendRow {
    /// What kept the append out, by what was found in its place.
    fn compare(&self, found: Option<&FoundRow>) -> StoredUnderKey {
        let Some(found) = found else { return StoredUnderKey::Another };
        let epoch = Some(self.epoch);
        let is_first_ours = (found.epoch, found.event.as_ref()) == (epoch, self.events.first());
        let is_last_ours = (found.last_epoch, found.last_event.as_ref()) == (epoch, self.events.last());
        if is_first_ours && is_last_ours {
            StoredUnderKey::Ours
        } else if found.highest > epoch {
            StoredUnderKey::Fenced
        } else {
            StoredUnderKey::Another
        }
    }

    /// Number of the last one.
    fn last(&self) -> i64 {
        let behind = i64::try_from(self.events.len()).unwrap_or(i64::MAX).saturating_sub(1);
        self.first.saturating_add(behind)
    }
}

/// The indexes of the appends that were inserted.
type Inserted = HashSet<usize>;

/// Many events are one statement, and many records another one.
async fn write_to_sqlite(pools: &Sqlite, entries: &[Entry]) -> Result<Inserted, sqlx::Error> {
    match entries {
        // One statement is a transaction by itself. Beginning and ending one would be two more turns.
        [Entry::Append(append)] if append.events.len() <= ROWS_AT_ONCE => {
            let mut writer = pools.writer().acquire().await?;
            append_to_sqlite(&mut writer, &[(0, append)]).await
        }
        [Entry::Record(record)] => {
            let mut writer = pools.writer().acquire().await?;
            save_in_sqlite(&mut writer, &[record]).await.map(|()| Inserted::new())
        }
        entries => {
            let mut transaction = pools.writer().begin_with("BEGIN IMMEDIATE").await?;
            let inserted = write_in_transaction(&mut transaction, entries).await?;
            transaction.commit().await?;
            Ok(inserted)
        }
    }
}

async fn write_in_transaction(
    connection: &mut SqliteConnection,
    entries: &[Entry],
) -> Result<Inserted, sqlx::Error> {
    let mut inserted = Inserted::new();
    let appends = entries.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.append()?)));
    let mut left: Vec<_> = appends.collect();
    // A second append to a run has to see the first one.
    while !left.is_empty() {
        let mut runs = HashSet::new();
        let (now, later) = left.into_iter().partition::<Vec<_>, _>(|(_, append)| runs.insert(&append.run_id));
        inserted.extend(append_to_sqlite(connection, &now).await?);
        left = later;
    }
    // Events that were there before, in this epoch and with this text, were committed with their record.
    let written = entries.iter().enumerate().filter(|(index, entry)| match entry {
        Entry::Append(_) => false,
        Entry::Record(_) => true,
        Entry::End(..) => inserted.contains(index),
    });
    save_in_sqlite(connection, &last_records(written.map(|(_, entry)| entry))).await?;
    Ok(inserted)
}

/// Appends to runs each of which occurs once. The events of an append are in one statement, which decides about all of them:
/// reading the table that it writes to, it sees nothing of what it writes. What does not fit into it follows in the same
/// transaction.
async fn append_to_sqlite(
    connection: &mut SqliteConnection,
    appends: &[(usize, &AppendRow)],
) -> Result<Inserted, sqlx::Error> {
    let mut inserted = Inserted::new();
    for appends in together(appends) {
        let rows = appends.iter().map(|(_, append)| append.events.len().min(ROWS_AT_ONCE)).sum();
        let sql = format!(
            "WITH a (run_id, first, sequence, epoch, event) AS (VALUES {}) \
             INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
             SELECT run_id, sequence, '', epoch, event FROM a \
             WHERE NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.epoch > a.epoch) \
               AND NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.sequence = a.first) \
             ON CONFLICT DO NOTHING RETURNING run_id, sequence",
            values(rows, 5)
        );
        let mut query = sqlx::query_as::<_, (String, i64)>(AssertSqlSafe(sql));
        for (_, append) in appends {
            for (number, event) in (append.first..).zip(&append.events).take(ROWS_AT_ONCE) {
                query =
                    query.bind(&append.run_id).bind(append.first).bind(number).bind(append.epoch).bind(event);
            }
        }
        let written: HashSet<_> = query.fetch_all(&mut *connection).await?.into_iter().collect();
        let is_written = |append: &AppendRow| written.contains(&(append.run_id.clone(), append.first));
        for (index, append) in appends.iter().filter(|(_, append)| is_written(append)) {
            append_rest(connection, append).await?;
            inserted.insert(*index);
        }
    }
    Ok(inserted)
}

/// The events of a long append behind those that were inserted.
async fn append_rest(connection: &mut SqliteConnection, append: &AppendRow) -> Result<(), sqlx::Error> {
    let rest: Vec<_> = (append.first..).zip(&append.events).skip(ROWS_AT_ONCE).collect();
    for rows in rest.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "WITH a (run_id, sequence, epoch, event) AS (VALUES {}) \
             INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
             SELECT run_id, sequence, '', epoch, event FROM a",
            values(rows.len(), 4)
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (number, event) in rows {
            query = query.bind(&append.run_id).bind(number).bind(append.epoch).bind(event);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Those that go into one statement together.
fn together<'a, 'b>(mut appends: &'b [(usize, &'a AppendRow)]) -> Vec<&'b [(usize, &'a AppendRow)]> {
    let mut statements = Vec::new();
    while !appends.is_empty() {
        let (mut count, mut rows) = (0, 0);
        for (_, append) in appends {
            rows += append.events.len();
            // A long one goes alone.
            if count > 0 && rows > ROWS_AT_ONCE {
                break;
            }
            count += 1;
        }
        let (statement, left) = appends.split_at(count);
        statements.push(statement);
        appends = left;
    }
    statements
}

/// Writes records of different runs.
async fn save_in_sqlite(
    connection: &mut SqliteConnection,
    records: &[&RecordRow],
) -> Result<(), sqlx::Error> {
    for records in records.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "INSERT OR REPLACE INTO run_records \
             (run_id, request_id, user_id, job_id, started_at, finished_at, outcome) VALUES {}",
            values(records.len(), 7)
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for record in records {
            query = query.bind(&record.run_id).bind(&record.request_id).bind(&record.user_id);
            query = query.bind(&record.job_id).bind(record.started_at).bind(record.finished_at);
            query = query.bind(&record.outcome);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

impl Entry {
    fn append(&self) -> Option<&AppendRow> {
        match self {
            Self::Append(append) | Self::End(append, _) => Some(append),
            Self::Record(_) => None,
        }
    }

    fn record(&self) -> Option<&RecordRow> {
        match self {
            Self::Record(record) | Self::End(_, record) => Some(record),
            Self::Append(_) => None,
        }
    }
}

impl AppendRow {
    fn bytes(&self) -> usize {
        self.events.iter().map(String::len).sum()
    }
}

/// Writes the events. Records are written by a statement, and so in a transaction, of their own: either may be repeated.
async fn write_to_postgres(pool: &Postgres, entries: &[Entry]) -> Result<Inserted, sqlx::Error> {
    // One statement sees nothing of what it inserts, so of two appends in one place only the first goes with it. The
    // other one is compared with what stands there then.
    let mut places = HashSet::new();
    let appends: Vec<_> = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry.append()?)))
        .filter(|(_, append)| places.insert((&append.run_id, append.first)))
        .collect();
    if appends.is_empty() {
        return Ok(Inserted::new());
    }
    let firsts = insert_into_postgres(pool, &appends).await?;
    let is_inserted = |append: &AppendRow| firsts.contains(&(append.run_id.clone(), append.first));
    Ok(appends.into_iter().filter(|(_, append)| is_inserted(append)).map(|(index, _)| index).collect())
}

/// The records of these. One statement cannot write a row twice; the last one counts.
fn last_records<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<&'a RecordRow> {
    let records: HashMap<_, _> =
        entries.filter_map(Entry::record).map(|record| (&record.run_id, record)).collect();
    records.into_values().collect()
}

/// Answers run and number of the first event of every append that was inserted.
async fn insert_into_postgres(
    pool: &Postgres,
    appends: &[(usize, &AppendRow)],
) -> Result<HashSet<(String, i64)>, sqlx::Error> {
    let sql = "WITH firsts AS ( \
                   INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
                   SELECT run_id, sequence, '', epoch, event \
                   FROM UNNEST($1::text[], $2::bigint[], $3::bigint[], $4::text[]) \
                        AS a (run_id, sequence, epoch, event) \
                   WHERE NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.epoch > a.epoch) \
                   ON CONFLICT DO NOTHING RETURNING run_id, sequence), \
               rest AS ( \
                   INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
                   SELECT r.run_id, r.sequence, '', r.epoch, r.event \
                   FROM UNNEST($5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[]) \
                        AS r (run_id, first, sequence, epoch, event) \
                   JOIN firsts f ON f.run_id = r.run_id AND f.sequence = r.first \
                   ON CONFLICT DO NOTHING) \
               SELECT run_id, sequence FROM firsts";
    let firsts: Vec<_> =
        appends.iter().filter_map(|(_, append)| Some((*append, append.events.first()?))).collect();
    let rest: Vec<_> = appends
        .iter()
        .flat_map(|(_, append)| (append.first..).zip(&append.events).skip(1).map(move |row| (*append, row)))
        .collect();
    let inserted: Vec<(String, i64)> = on_postgres!(pool, Allowed, db => {
        sqlx::query_as(sql)
            .bind(column(&firsts, |(append, _)| &*append.run_id))
            .bind(column(&firsts, |(append, _)| append.first))
            .bind(column(&firsts, |(append, _)| append.epoch))
            .bind(column(&firsts, |(_, event)| event.as_str()))
            .bind(column(&rest, |(append, _)| &*append.run_id))
            .bind(column(&rest, |(append, _)| append.first))
            .bind(column(&rest, |(_, (sequence, _))| *sequence))
            .bind(column(&rest, |(append, _)| append.epoch))
            .bind(column(&rest, |(_, (_, event))| event.as_str()))
            .fetch_all(db)
    })?;
    Ok(inserted.into_iter().collect())
}

async fn upsert_into_postgres(pool: &Postgres, records: &[&RecordRow]) -> Result<(), sqlx::Error> {
    if records.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO run_records \
               (run_id, request_id, user_id, job_id, started_at, finished_at, outcome) \
               SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], \
                                    $5::bigint[], $6::bigint[], $7::text[]) \
               ON CONFLICT (run_id) DO UPDATE SET request_id = excluded.request_id, \
               user_id = excluded.user_id, job_id = excluded.job_id, started_at = excluded.started_at, \
               finished_at = excluded.finished_at, outcome = excluded.outcome";
    on_postgres!(pool, Allowed, db => {
        sqlx::query(sql)
            .bind(column(records, |record| &*record.run_id))
            .bind(column(records, |record| &*record.request_id))
            .bind(column(records, |record| record.user_id.as_deref()))
            .bind(column(records, |record| record.job_id.as_deref()))
            .bind(column(records, |record| record.started_at))
            .bind(column(records, |record| record.finished_at))
            .bind(column(records, |record| &*record.outcome))
            .execute(db)
    })
    .map(drop)
}

/// One column of many rows.
fn column<'a, R, C>(rows: &'a [R], of: impl Fn(&'a R) -> C) -> Vec<C> {
    rows.iter().map(of).collect()
}
