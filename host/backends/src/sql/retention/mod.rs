//! Removing what has ended from the database: jobs (`jobs.rs`), runs (`runs.rs`), kept conversations
//! (`conversations.rs`) and the audit trail of tool versions (`tool_audit.rs`). Old webhooks and idempotency
//! keys go by ages of their own.
//!
//! Each finds what has ended along an index, in steps, which are removed [`AT_ONCE`] at a time. On PostgreSQL
//! runs lie in partitions by month (`partitions.rs`), which are dropped as a whole (`drop_partitions.rs`).

mod conversations;
mod drop_partitions;
mod ids;
mod jobs;
pub(super) mod partitions;
mod recordings;
mod runs;
mod tool_audit;
mod unended;

use std::time::SystemTime;

use agent_core::ports::{
    DropStep, EndedPage, PageResult, RetainedKind, Retention, RetentionBounds, RetentionError,
    RetentionResult,
};
use boxed_async::boxed_async;

use self::drop_partitions::Bound;
use self::ids::SqlPage;
use self::partitions::{LargeTables, make_months_ahead};
use self::unended::{MAY_GO_ON, WAITS_FOR_SOMEBODY};
use super::error::describe;
use super::{SqlPool, from_ms, idempotency, now, reading, webhooks};

/// How many things are removed in one transaction: each may have megabytes, and SQLite lets nobody else write
/// meanwhile.
const AT_ONCE: u32 = 20;

/// Things of one kind in the database.
pub struct SqlRetention {
    pool: SqlPool,
    kind: RetainedKind,
    bounds: RetentionBounds,
    has_jobs_elsewhere: bool,
}

impl SqlRetention {
    /// What the database has of that kind. Its tables are made by `SqlPool::migrate`.
    pub fn new(pool: SqlPool, kind: RetainedKind) -> Self {
        Self { pool, kind, bounds: RetentionBounds::default(), has_jobs_elsewhere: false }
    }

    /// By these bounds: on PostgreSQL runs that are kept for 28 days or longer, whatever their number, stay
    /// until their month is over, and go with it.
    pub fn with_bounds(self, bounds: RetentionBounds) -> Self {
        Self { bounds, ..self }
    }

    /// Says whether jobs lie in another store than this database. A run that failed for one of them then
    /// goes with no month: whoever sweeps asks the queue whether that job goes on with it.
    #[must_use]
    pub fn with_jobs_elsewhere(self, has_jobs_elsewhere: bool) -> Self {
        Self { has_jobs_elsewhere, ..self }
    }

    async fn ended_runs(&self, before: SystemTime, from: Option<&str>, most: u32) -> SqlPage {
        let over = match &self.pool {
            SqlPool::Postgres(pool) if drop_partitions::are_dropped_whole(self.bounds) => {
                Some(drop_partitions::over(pool, before).await?)
            }
            _ => None,
        };
        runs::ended_before(&self.pool, before, from, most, over.as_deref()).await
    }

    async fn nth_newest(&self, sql: &'static str, newer: i64) -> sqlx::Result<Option<i64>> {
        reading!(&self.pool, db => sqlx::query_scalar(sql).bind(newer).fetch_optional(db))
    }

    async fn first(&self, sql: &'static str) -> sqlx::Result<Option<i64>> {
        reading!(&self.pool, db => sqlx::query_scalar(sql).fetch_optional(db))
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
            RetainedKind::Runs => self.nth_newest(runs::NTH_NEWEST, others).await,
            RetainedKind::Conversations => self.nth_newest(conversations::NTH_NEWEST, others).await,
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
                let unless = if self.has_jobs_elsewhere { MAY_GO_ON } else { WAITS_FOR_SOMEBODY };
                drop_partitions::drop_step(pool, Bound { before, unless }, from).await.map_err(failed)
            }
            _ => Ok(DropStep::default()),
        }
    }

    async fn ended_before(&self, before: SystemTime, from: Option<&str>, most: u32) -> PageResult {
        let page = match self.kind {
            RetainedKind::Jobs => jobs::ended_before(&self.pool, before, from, most).await,
            RetainedKind::Runs => self.ended_runs(before, from, most).await,
            RetainedKind::Conversations => conversations::idle_since(&self.pool, before, from, most).await,
            RetainedKind::ToolAudit => tool_audit::written_before(&self.pool, before, from, most).await,
        };
        page.map_err(failed)
    }

    async fn ended_of(&self, user_id: &str, from: Option<&str>, most: u32) -> PageResult {
        let page = match self.kind {
            RetainedKind::Jobs => jobs::ended_of(&self.pool, user_id, from, most).await,
            RetainedKind::Runs => runs::ended_of(&self.pool, user_id, from, most).await,
            RetainedKind::Conversations => conversations::idle_of(&self.pool, user_id, from, most).await,
            // Who approved which tool is not about what somebody asked.
            RetainedKind::ToolAudit => Ok(EndedPage::default()),
        };
        page.map_err(failed)
    }

    /// Some at a time: where the time that the database has to answer is too short for all, some of them are
    /// gone and the next sweep gets on.
    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        let mut removed = 0;
        for ids in ids.chunks(AT_ONCE as usize) {
            let gone = match self.kind {
                RetainedKind::Jobs => jobs::remove(&self.pool, ids).await,
                RetainedKind::Runs => runs::remove(&self.pool, ids).await,
                RetainedKind::Conversations => conversations::remove(&self.pool, ids).await,
                RetainedKind::ToolAudit => tool_audit::remove(&self.pool, ids).await,
            };
            removed += gone.map_err(failed)?;
        }
        Ok(removed)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        let ended = match self.kind {
            RetainedKind::Jobs => self.first(jobs::OLDEST).await,
            RetainedKind::Runs => self.first(runs::OLDEST).await,
            RetainedKind::Conversations => self.first(conversations::OLDEST).await,
            RetainedKind::ToolAudit => tool_audit::oldest(&self.pool).await,
        };
        Ok(ended.map_err(failed)?.map(from_ms))
    }

    /// Keys and webhooks go with the audit trail, the one kind that every database has.
    async fn remove_expired(&self) -> RetentionResult<bool> {
        if self.kind != RetainedKind::ToolAudit {
            return Ok(false);
        }
        let keys = idempotency::expire(&self.pool, AT_ONCE).await.map_err(failed)?;
        let webhooks = webhooks::expire(&self.pool, AT_ONCE).await.map_err(failed)?;
        Ok(keys.max(webhooks) >= u64::from(AT_ONCE))
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

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
    use test_servers::Postgres;

    use super::*;
    use crate::sql::sqlite_plans::SqlitePlans;

    /// Statements that pass over nothing that has not ended, each with the index that it walks.
    const WALKS: [(&str, &str); 5] = [
        (jobs::ENDED_BEFORE, "jobs_ended"),
        (jobs::NTH_NEWEST, "jobs_ended"),
        (jobs::OLDEST, "jobs_ended"),
        (runs::NTH_NEWEST, "run_records_ended"),
        (runs::OLDEST, "run_records_ended"),
    ];

    /// Mostly jobs and runs that wait for somebody, on PostgreSQL.
    const FILL: &str = "\
        INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at) \
            SELECT lpad(n::text, 8, '0'), 'r', 'u', 'q', CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'parked' END, 1, 1 \
            FROM generate_series(1, 10000) AS n; \
        INSERT INTO run_records (run_id, request_id, job_id, started_at, finished_at, outcome) \
            SELECT 'run_f' || n, 'r', 'j', 1, n, CASE WHEN n % 1000 = 0 THEN '{}' ELSE '{\"outcome\":\"running\"}' END \
            FROM generate_series(1, 10000) AS n; \
        ANALYZE jobs; ANALYZE run_records";

    #[tokio::test]
    async fn what_waits_is_in_no_sweeps_way_on_sqlite() {
        let mut plans = SqlitePlans::open().await;
        let of_user = [(jobs::ENDED_OF, "jobs_ended_of_user"), (runs::ENDED_OF, "run_records_of_user")];
        for (sql, index) in WALKS.into_iter().chain(of_user) {
            let steps = plans.steps(sql).await;
            assert!(steps.iter().any(|step| step.contains(index)), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{sql}: {steps:?}");
        }
    }

    #[tokio::test]
    async fn what_waits_is_in_no_sweeps_way_on_postgres() {
        let server = Postgres::start().await;
        SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        sqlx::raw_sql(FILL).execute(&mut connection).await.unwrap();
        for (sql, index) in WALKS {
            let parameters = [("$1", "'0'"), ("$2", "'9'"), ("$3", "'5'"), ("$4", "'5'")];
            let sql = parameters.iter().fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, value));
            // Of the partition that has all of these runs: an empty one may be read as a whole.
            let sql = sql.replace("FROM run_records ", "FROM run_records_rest ");
            let explain = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {sql}")));
            let plan: Vec<String> = explain.fetch_all(&mut connection).await.unwrap();
            let plan = plan.join("\n");
            let index = index.replace("run_records_ended", "run_records_rest_finished_at_idx");
            assert!(plan.contains(&format!("using {index} on")), "{sql}: {plan}");
            // No row is looked at for the condition of the index.
            assert!(!["status", "outcome", "Sort"].iter().any(|word| plan.contains(word)), "{sql}: {plan}");
            let passes_over = sql.contains("OFFSET");
            assert!(!passes_over || plan.contains("Index Only Scan"), "no row is read: {plan}");
        }
    }
}
