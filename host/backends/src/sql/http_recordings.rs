//! What tools were answered over HTTP, in the database.
//!
//! An append is one transaction, one statement for each exchange: it counts what the run and the call have,
//! and inserts the exchange if the bounds leave room for it. Of two processes that append to one run at the
//! same moment one may find its number taken; its exchange is then left away, as one beyond the bounds is.

use agent_core::ports::http_recordings::{
    HttpRecording, HttpRecordings, HttpRecordingsError, MOST_BYTES_OF_A_CALL, MOST_BYTES_OF_A_RUN,
    MOST_EXCHANGES_OF_A_CALL,
};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;

use super::error::describe;
use super::text_columns::{escape, unescape};
use super::transaction::{SqlTransaction, in_transaction};
use super::{SqlPool, answer, reading, writing};

/// `$1` run, `$2` call, `$3` bytes, `$4` exchange, `$5` most exchanges and `$6` most bytes of a call, `$7` of
/// a run.
const INSERT: &str = "\
    INSERT INTO http_recordings (run_id, call_id, number, bytes, exchange) \
    SELECT $1, $2, COALESCE(MAX(number), -1) + 1, $3, $4 FROM http_recordings WHERE run_id = $1 \
    HAVING COUNT(*) FILTER (WHERE call_id = $2) < $5 \
    AND COALESCE(SUM(bytes) FILTER (WHERE call_id = $2), 0) + $3 <= $6 \
    AND COALESCE(SUM(bytes), 0) + $3 <= $7 \
    ON CONFLICT DO NOTHING";

const READ: &str = "SELECT call_id, exchange FROM http_recordings WHERE run_id = $1 ORDER BY number";

const REMOVE: &str = "DELETE FROM http_recordings WHERE run_id = $1";

/// Keeps exchanges in the database, shared by every process that uses the same one.
pub struct SqlHttpRecordings {
    pool: SqlPool,
}

impl SqlHttpRecordings {
    /// The store in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool }
    }

    async fn insert(&self, run_id: &str, recordings: &[HttpRecording]) -> sqlx::Result<u64> {
        let run_id = escape(run_id);
        let bound = |bound: usize| i64::try_from(bound).unwrap_or(i64::MAX);
        let mut transaction = SqlTransaction::begin(&self.pool).await?;
        let mut kept = 0;
        for recording in recordings {
            kept += in_transaction!(transaction, db => {
                sqlx::query(INSERT)
                    .bind(&*run_id)
                    .bind(escape(&recording.call_id))
                    .bind(bound(recording.exchange.len()))
                    .bind(&recording.exchange)
                    .bind(bound(MOST_EXCHANGES_OF_A_CALL))
                    .bind(bound(MOST_BYTES_OF_A_CALL))
                    .bind(bound(MOST_BYTES_OF_A_RUN))
                    .execute(db)
                    .map_ok(|done| done.rows_affected())
            })?;
        }
        transaction.commit().await?;
        Ok(kept)
    }
}

#[boxed_async]
impl HttpRecordings for SqlHttpRecordings {
    async fn append(&self, run_id: &str, recordings: &[HttpRecording]) -> Result<usize, HttpRecordingsError> {
        let kept = answer(self.insert(run_id, recordings)).await.map_err(failed)?;
        Ok(usize::try_from(kept).unwrap_or(usize::MAX))
    }

    async fn read(&self, run_id: &str) -> Result<Vec<HttpRecording>, HttpRecordingsError> {
        let rows: Vec<(String, Vec<u8>)> = reading!(&self.pool, db => {
            sqlx::query_as(READ).bind(escape(run_id)).fetch_all(db)
        })
        .map_err(failed)?;
        let recording = |(call_id, exchange)| HttpRecording { call_id: unescape(call_id), exchange };
        Ok(rows.into_iter().map(recording).collect())
    }

    /// One statement for each run: recordings are large, and nobody writes to SQLite meanwhile.
    async fn remove(&self, run_ids: &[String]) -> Result<(), HttpRecordingsError> {
        for run_id in run_ids {
            writing!(&self.pool, db => sqlx::query(REMOVE).bind(escape(run_id)).execute(db).map_ok(drop))
                .map_err(failed)?;
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> HttpRecordingsError {
    HttpRecordingsError(describe(&error))
}
