//! Removing what has ended from the database: jobs (`jobs.rs`), runs (`runs.rs`), kept conversations
//! (`conversations.rs`) and the audit trail of tool versions (`tool_audit.rs`).
//!
//! Each finds what has ended along an index, in steps, and removes a step in one transaction. On PostgreSQL
//! runs lie in partitions by month (`partitions.rs`), which are dropped as a whole (`months.rs`).

mod conversations;
mod ids;
mod jobs;
mod months;
pub(super) mod partitions;
mod recordings;
mod runs;
mod tool_audit;

use std::time::SystemTime;

use agent_core::ports::{
    DropStep, EndedPage, RetainedKind, Retention, RetentionBounds, RetentionError, RetentionResult,
};
use boxed_async::boxed_async;

use self::partitions::{LargeTables, make_months_ahead};
use super::error::describe;
use super::{SqlPool, from_ms, now};

/// Things of one kind in the database.
pub struct SqlRetention {
    pool: SqlPool,
    kind: RetainedKind,
    bounds: RetentionBounds,
}

impl SqlRetention {
    /// What the database has of that kind. Its tables are made by `SqlPool::migrate`.
    pub fn new(pool: SqlPool, kind: RetainedKind) -> Self {
        Self { pool, kind, bounds: RetentionBounds::default() }
    }

    /// By these bounds: on PostgreSQL runs that are kept for 28 days or longer, whatever their number, stay
    /// until their month is over, and go with it.
    pub fn with_bounds(self, bounds: RetentionBounds) -> Self {
        Self { bounds, ..self }
    }

    async fn ended_runs(&self, before: SystemTime, from: Option<&str>, most: u32) -> sqlx::Result<EndedPage> {
        let over = match &self.pool {
            SqlPool::Postgres(pool) if months::are_dropped_whole(self.bounds) => {
                Some(months::over(pool, before).await?)
            }
            _ => None,
        };
        runs::ended_before(&self.pool, before, from, most, over.as_deref()).await
    }
}

#[boxed_async]
impl Retention for SqlRetention {
    fn kind(&self) -> RetainedKind {
        self.kind
    }

    async fn now(&self) -> RetentionResult<SystemTime> {
        now(&self.pool).await.map_err(failed)
    }

    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>> {
        let others = i64::try_from(count.saturating_sub(1)).unwrap_or(i64::MAX);
        let ended = match self.kind {
            RetainedKind::Jobs => jobs::nth_newest(&self.pool, others).await,
            RetainedKind::Runs => runs::nth_newest(&self.pool, others).await,
            RetainedKind::Conversations => conversations::nth_newest(&self.pool, others).await,
            RetainedKind::ToolAudit => tool_audit::nth_newest(&self.pool, others).await,
        };
        Ok(ended.map_err(failed)?.map(from_ms))
    }

    async fn drop_partitions(&self, before: SystemTime, from: Option<&str>) -> RetentionResult<DropStep> {
        match (&self.pool, self.kind) {
            (SqlPool::Postgres(pool), RetainedKind::Runs) => {
                if from.is_none() {
                    make_months_ahead(pool, LargeTables::Read).await;
                }
                months::drop_step(pool, before, from).await.map_err(failed)
            }
            _ => Ok(DropStep::default()),
        }
    }

    async fn ended_before(
        &self,
        before: SystemTime,
        from: Option<&str>,
        most: u32,
    ) -> RetentionResult<EndedPage> {
        let page = match self.kind {
            RetainedKind::Jobs => jobs::ended_before(&self.pool, before, from, most).await,
            RetainedKind::Runs => self.ended_runs(before, from, most).await,
            RetainedKind::Conversations => conversations::idle_since(&self.pool, before, from, most).await,
            RetainedKind::ToolAudit => tool_audit::written_before(&self.pool, before, from, most).await,
        };
        page.map_err(failed)
    }

    async fn ended_of(&self, user_id: &str, from: Option<&str>, most: u32) -> RetentionResult<EndedPage> {
        let page = match self.kind {
            RetainedKind::Jobs => jobs::ended_of(&self.pool, user_id, from, most).await,
            RetainedKind::Runs => runs::ended_of(&self.pool, user_id, from).await,
            RetainedKind::Conversations => conversations::idle_of(&self.pool, user_id, from, most).await,
            // Who approved which tool is not about what somebody asked.
            RetainedKind::ToolAudit => Ok(EndedPage::default()),
        };
        page.map_err(failed)
    }

    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        let removed = match self.kind {
            RetainedKind::Jobs => jobs::remove(&self.pool, ids).await,
            RetainedKind::Runs => runs::remove(&self.pool, ids).await,
            RetainedKind::Conversations => conversations::remove(&self.pool, ids).await,
            RetainedKind::ToolAudit => tool_audit::remove(&self.pool, ids).await,
        };
        removed.map_err(failed)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        let ended = match self.kind {
            RetainedKind::Jobs => jobs::oldest(&self.pool).await,
            RetainedKind::Runs => runs::oldest(&self.pool).await,
            RetainedKind::Conversations => conversations::oldest(&self.pool).await,
            RetainedKind::ToolAudit => tool_audit::oldest(&self.pool).await,
        };
        Ok(ended.map_err(failed)?.map(from_ms))
    }

    async fn give_back_room(&self) -> RetentionResult<bool> {
        match &self.pool {
            // PostgreSQL's autovacuum has freed rows used again.
            SqlPool::Postgres(_) => Ok(false),
            SqlPool::Sqlite(pools) => pools.give_back_room().await.map_err(failed),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> RetentionError {
    RetentionError(describe(&error))
}
