//! Rows of the table of jobs, and what the port makes of them.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Claim, EarlierClaims, Epoch, QueueError};
use agent_core::trace::TraceContext;
use agent_core::words::{Depth, Job, JobData, JobOptions, JobStatus, OpenKinds, WaitDepth};
use serde_json::value::RawValue;
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};
use tokio::time::Instant;

use crate::sql::commit::ClaimRow;
use crate::sql::from_ms;
use crate::sql::from_row::from_row;
use crate::sql::text_columns::unescape;

from_row! {
    #[derive(Debug, Clone)]
    pub(super) struct JobRow {
        pub(super) id: String,
        run_id: String,
        user_id: String,
        parent: Option<String>,
        status: String,
        result: Option<String>,
        error: Option<String>,
        attempts_made: i64,
        created_at: i64,
        started_at: Option<i64>,
        finished_at: Option<i64>,
    }
}

/// A job, and when it is due.
#[derive(Debug)]
pub(super) struct ParkedRow {
    pub(super) due_at: i64,
    pub(super) job: JobRow,
}

impl<'r, R: Row> FromRow<'r, R> for ParkedRow
where
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    JobRow: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self { due_at: row.try_get("due_at")?, job: JobRow::from_row(row)? })
    }
}

from_row! {
    #[derive(Debug)]
    pub(super) struct DepthRow {
        waiting: i64,
        active: i64,
        delayed: i64,
        parked: i64,
        oldest_parked: Option<i64>,
        oldest_waiting: Option<i64>,
    }

    /// Parked jobs whose runs wait for the same kinds.
    #[derive(Debug)]
    pub(super) struct WaitsRow {
        kinds: i64,
        runs: i64,
        oldest: Option<i64>,
    }
}

impl JobRow {
    pub(super) fn into_job(self) -> Result<Job, QueueError> {
        let unreadable = || QueueError::Store { detail: "a job cannot be read by this program".into() };
        Ok(Job {
            id: self.id,
            run_id: self.run_id,
            user_id: unescape(self.user_id),
            parent: self.parent,
            status: JobStatus::parse(&self.status).ok_or_else(unreadable)?,
            result: self.result.map(RawValue::from_string).transpose().map_err(|_error| unreadable())?,
            error: self.error.map(unescape),
            attempts_made: u32::try_from(self.attempts_made).unwrap_or(u32::MAX),
            created_at: from_ms(self.created_at),
            started_at: self.started_at.map(from_ms),
            finished_at: self.finished_at.map(from_ms),
        })
    }
}

/// What a worker is given of a job that it claimed.
pub(super) fn into_claim(row: ClaimRow, token: String, leased_at: Instant) -> Claim {
    let are_none = row.is_first();
    Claim {
        job_id: row.id,
        token,
        epoch: Epoch(row.claims.unsigned_abs()),
        earlier: EarlierClaims { are_none, lost: u32::try_from(row.losses).unwrap_or(u32::MAX) },
        run_id: row.run_id,
        cancel_asked: row.cancel_asked != 0,
        data: JobOptions::from_text(row.options.as_deref()).map(|options| JobData {
            query: unescape(row.query),
            user_id: unescape(row.user_id),
            tier: row.user_tier.map(unescape),
            role: row.user_role.map(unescape),
            conversation_id: row.conversation_id,
            options,
            id: None,
            goes_on: None,
            parent: row.parent,
        }),
        attempts_made: u32::try_from(row.attempts_made).unwrap_or(u32::MAX),
        created_at: from_ms(row.created_at),
        trace: row.traceparent.as_deref().and_then(TraceContext::parse),
        leased_at: leased_at.into_std(),
        notes: Arc::default(),
    }
}

impl DepthRow {
    pub(super) fn into_depth(self, waits: Vec<WaitsRow>) -> Depth {
        let row = self;
        let mut depth = Depth {
            waiting: row.waiting.unsigned_abs(),
            active: row.active.unsigned_abs(),
            delayed: row.delayed.unsigned_abs(),
            parked: row.parked.unsigned_abs(),
            oldest_parked: row.oldest_parked.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            oldest_waiting: row.oldest_waiting.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            ..Depth::default()
        };
        for WaitsRow { kinds, runs, oldest } in waits {
            // The clock of whoever began to wait may be ahead of the database's.
            let oldest = oldest.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            let kinds = OpenKinds { bits: u8::try_from(kinds).unwrap_or(0), since: 0 };
            depth.add_waits(kinds, WaitDepth { runs: runs.unsigned_abs(), oldest });
        }
        depth
    }
}
