//! Runs: their events and their records.

use agent_core::journal_format::{decode, encode};
use agent_core::ports::{Epoch, Journal, JournalError, JournalResult, RunStore};
use agent_core::words::{Event, RunQuery, RunRecord};
use boxed_async::boxed_async;

use super::commit::{AppendRow, CommitError, Commits, Entry, RecordRow, StoredUnderKey};
use super::error::describe;
use super::text_columns::{escape, unescape};
use super::{SqlPool, from_ms, reading, to_ms};
use crate::Writer;

/// The beginning of a statement that reads records. With `*` a column that a later release adds would change
/// what statements give that are prepared already, which PostgreSQL refuses.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT run_id, request_id, user_id, job_id, started_at, finished_at, outcome FROM run_records WHERE ",
            $condition
        )
    };
}

/// `$1` and `$2` end and id of the last one of the page before, `$3` most rows.
const LIST: &str = select!(
    "finished_at <= $1 AND (finished_at < $1 OR run_id < $2) ORDER BY finished_at DESC, run_id DESC LIMIT $3"
);

/// As [`LIST`], of the user `$4`, along the index of the runs of each.
const LIST_OF_USER: &str = select!(
    "user_id = $4 AND finished_at <= $1 AND (finished_at < $1 OR run_id < $2) \
    ORDER BY finished_at DESC, run_id DESC LIMIT $3"
);

/// Keeps runs in the database. What is written at the same time is committed together, with what the queue
/// writes there.
pub struct SqlRuns {
    pool: SqlPool,
    commits: Commits,
}

impl SqlRuns {
    /// The store, and what writes for it, which has to be run beside it.
    pub fn new(pool: SqlPool) -> (Self, Writer) {
        let (commits, writing) = Commits::new(&pool);
        (Self { pool, commits }, writing)
    }

    /// Writes an entry that begins with events.
    async fn write(&self, run_id: &str, first: u64, entry: Entry) -> JournalResult {
        match self.commits.write(entry).await.map_err(not_committed)? {
            StoredUnderKey::Ours => Ok(()),
            StoredUnderKey::Another => {
                Err(JournalError::Conflict { run_id: run_id.to_owned(), sequence: first })
            }
            StoredUnderKey::Fenced => Err(JournalError::Fenced { run_id: run_id.to_owned() }),
        }
    }

    async fn read_events(&self, run_id: &str, from: u64, most: i64) -> JournalResult<Vec<Event>> {
        let sql = "SELECT sequence, event FROM run_events WHERE run_id = $1 AND sequence >= $2 \
            ORDER BY sequence LIMIT $3";
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let events: Vec<(i64, String)> = reading!(&self.pool, db => {
            sqlx::query_as(sql).bind(escape(run_id)).bind(from).bind(most).fetch_all(db)
        })
        .map_err(failed)?;
        events.iter().map(|(sequence, event)| decode(run_id, sequence.unsigned_abs(), event)).collect()
    }
}

fn append_row(run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult<AppendRow> {
    let end = first.checked_add(events.len() as u64).and_then(|end| i64::try_from(end).ok());
    end.ok_or_else(|| store("the run is too long"))?;
    Ok(AppendRow {
        run_id: escape(run_id).into_owned(),
        epoch: i64::try_from(epoch.0).map_err(|_too_large| store("the job was claimed too often"))?,
        first: i64::try_from(first).map_err(|_too_large| store("the run is too long"))?,
        events: events.iter().map(encode).collect::<Result<_, _>>()?,
    })
}

fn record_row(record: &RunRecord) -> JournalResult<RecordRow> {
    Ok(RecordRow {
        run_id: escape(&record.id).into_owned(),
        request_id: escape(&record.request_id).into_owned(),
        user_id: record.user_id.as_deref().map(|id| escape(id).into_owned()),
        job_id: record.job_id.as_deref().map(|id| escape(id).into_owned()),
        started_at: to_ms(record.started_at),
        finished_at: to_ms(record.finished_at),
        outcome: to_json(&record.outcome)?,
    })
}

#[boxed_async]
impl Journal for SqlRuns {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        if events.is_empty() {
            return Ok(());
        }
        let entry = Entry::Append(append_row(run_id, epoch, first, events)?);
        self.write(run_id, first, entry).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.read_events(run_id, from, i64::MAX).await
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        self.read_events(run_id, from, i64::from(most)).await
    }
}

#[boxed_async]
impl RunStore for SqlRuns {
    async fn save(&self, record: &RunRecord) -> JournalResult {
        self.commits.write(Entry::Record(record_row(record)?)).await.map(drop).map_err(not_committed)
    }

    async fn append_and_save(
        &self,
        epoch: Epoch,
        first: u64,
        events: &[Event],
        record: &RunRecord,
    ) -> JournalResult {
        if events.is_empty() {
            return self.save(record).await;
        }
        let entry = Entry::End(append_row(&record.id, epoch, first, events)?, record_row(record)?);
        self.write(&record.id, first, entry).await
    }

    async fn find(&self, run_id: &str) -> JournalResult<Option<RunRecord>> {
        let row: Option<RecordRow> = reading!(&self.pool, db => {
            sqlx::query_as(select!("run_id = $1")).bind(escape(run_id)).fetch_optional(db)
        })
        .map_err(failed)?;
        row.map(RecordRow::into_record).transpose()
    }

    async fn list(&self, wanted: &RunQuery<'_>) -> JournalResult<Vec<RunRecord>> {
        let user_id = wanted.user_id.map(|id| escape(id).into_owned());
        let (end, id) = wanted.after.map_or((i64::MAX, ""), |(end, id)| (to_ms(end), id));
        let rows: Vec<RecordRow> = reading!(&self.pool, db => {
            let query = sqlx::query_as(if user_id.is_some() { LIST_OF_USER } else { LIST });
            let mut query = query.bind(end).bind(escape(id)).bind(i64::from(wanted.limit));
            if let Some(user_id) = user_id.as_deref() {
                query = query.bind(user_id);
            }
            query.fetch_all(db)
        })
        .map_err(failed)?;
        rows.into_iter().map(RecordRow::into_record).collect()
    }

    async fn find_by_job(&self, job_id: &str, user_id: &str) -> JournalResult<Option<RunRecord>> {
        let sql = select!("job_id = $1 AND user_id = $2 ORDER BY finished_at DESC LIMIT 1");
        let row: Option<RecordRow> = reading!(&self.pool, db => {
            sqlx::query_as(sql).bind(escape(job_id)).bind(escape(user_id)).fetch_optional(db)
        })
        .map_err(failed)?;
        row.map(RecordRow::into_record).transpose()
    }
}

impl RecordRow {
    fn into_record(self) -> JournalResult<RunRecord> {
        Ok(RunRecord {
            id: unescape(self.run_id),
            request_id: unescape(self.request_id),
            user_id: self.user_id.map(unescape),
            job_id: self.job_id.map(unescape),
            started_at: from_ms(self.started_at),
            finished_at: from_ms(self.finished_at),
            outcome: from_json(&self.outcome)?,
        })
    }
}

fn to_json(value: &impl serde::Serialize) -> JournalResult<String> {
    serde_json::to_string(value).map_err(|_error| store("it cannot be written as JSON"))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> JournalResult<T> {
    serde_json::from_str(text).map_err(|_error| store("what is stored cannot be read by this program"))
}

fn store(detail: &str) -> JournalError {
    JournalError::Store { detail: detail.into() }
}

fn not_committed(CommitError(detail): CommitError) -> JournalError {
    JournalError::Store { detail }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> JournalError {
    JournalError::Store { detail: describe(&error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::sqlite_plans::SqlitePlans;

    #[tokio::test]
    async fn on_sqlite_lists_are_read_in_the_order_of_an_index() {
        let mut plans = SqlitePlans::open().await;
        for (sql, index) in [(LIST, "run_records_by_end"), (LIST_OF_USER, "run_records_of_user (user_id=?")] {
            let steps = plans.steps(sql).await;
            assert!(steps.iter().any(|step| step.contains(index)), "{steps:?}");
            assert!(sql == LIST || !steps.iter().any(|step| step.contains("B-TREE")), "{steps:?}");
        }
    }
}
