//! Inserting jobs into the table, many in one commit.

use std::sync::Arc;

use agent_core::trace;
use agent_core::words::JobData;
use sqlx::{AssertSqlSafe, SqliteConnection};
use uuid::Uuid;

use crate::group_commit::ByteSize;
use crate::sql::commit::Write;
use crate::sql::text_columns::escape;
use crate::sql::values::{ROWS_AT_ONCE, values};
use crate::sql::{Postgres, SqlPool, Sqlite, on_postgres};

/// A job that is to be inserted.
#[derive(Debug)]
pub(super) struct NewJob {
    id: String,
    run_id: String,
    user_id: String,
    query: String,
    user_tier: Option<String>,
    user_role: Option<String>,
    conversation_id: Option<String>,
    traceparent: Option<String>,
    /// What is announced with it.
    announcement: Arc<str>,
}

impl NewJob {
    /// Its ids are new, unless its submitter chose that of the job. Ids of jobs grow with time, which is the order of the
    /// queue and of lists.
    pub(super) fn new(job: &JobData, announcement: &Arc<str>) -> Self {
        Self {
            id: job.id.clone().unwrap_or_else(|| Uuid::now_v7().simple().to_string()),
            run_id: new_run_id(),
            user_id: escape(&job.user_id).into_owned(),
            query: escape(&job.query).into_owned(),
            user_tier: job.tier.as_deref().map(|tier| escape(tier).into_owned()),
            user_role: job.role.as_deref().map(|role| escape(role).into_owned()),
            conversation_id: job.conversation_id.clone(),
            traceparent: trace::current().map(|context| context.to_string()),
            announcement: announcement.clone(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// The id of a run that a job makes.
pub(super) fn new_run_id() -> String {
    format!("run_{}", Uuid::now_v7().simple())
}

impl ByteSize for NewJob {
    fn bytes(&self) -> usize {
        let claims = [&self.user_tier, &self.user_role].into_iter().flatten();
        self.query.len() + self.user_id.len() + claims.map(String::len).sum::<usize>()
    }
}

impl Write for NewJob {
    type Answer = ();

    async fn commit(pool: &SqlPool, jobs: &[Self]) -> Result<Vec<()>, sqlx::Error> {
        match pool {
            SqlPool::Postgres(pool) => insert_into_postgres(pool, jobs).await?,
            SqlPool::Sqlite(pools) => insert_into_sqlite(pools, jobs).await?,
        }
        Ok(vec![(); jobs.len()])
    }
}

async fn insert_into_postgres(pool: &Postgres, jobs: &[NewJob]) -> Result<(), sqlx::Error> {
    let sql = "WITH added AS ( \
                   INSERT INTO jobs \
                       (id, run_id, user_id, query, user_tier, user_role, conversation_id, traceparent, status, due_at, \
                        created_at) \
                   SELECT job.*, 'waiting', ms, ms \
                   FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
                               $8::text[]) AS job, clock \
                   ON CONFLICT DO NOTHING RETURNING id) \
               SELECT pg_notify('agent_host_jobs', $9) FROM added LIMIT 1";
    let announcement = jobs.first().map_or("", |job| &*job.announcement);
    on_postgres!(pool, Allowed, db => {
        sqlx::query(sql)
            .bind(jobs.iter().map(|job| &*job.id).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| &*job.run_id).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| &*job.user_id).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| &*job.query).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| job.user_tier.as_deref()).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| job.user_role.as_deref()).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| job.conversation_id.as_deref()).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| job.traceparent.as_deref()).collect::<Vec<_>>())
            .bind(announcement)
            .execute(db)
    })
    .map(drop)
}

/// A few jobs are one statement, and so one turn of the thread that SQLite runs on.
async fn insert_into_sqlite(pools: &Sqlite, jobs: &[NewJob]) -> Result<(), sqlx::Error> {
    if jobs.len() <= ROWS_AT_ONCE {
        let mut writer = pools.writer().acquire().await?;
        return insert_together(&mut writer, jobs).await;
    }
    let mut transaction = pools.writer().begin_with("BEGIN IMMEDIATE").await?;
    for jobs in jobs.chunks(ROWS_AT_ONCE) {
        insert_together(&mut transaction, jobs).await?;
    }
    transaction.commit().await
}

async fn insert_together(connection: &mut SqliteConnection, jobs: &[NewJob]) -> Result<(), sqlx::Error> {
    let sql = format!(
        "WITH job AS (VALUES {}) \
         INSERT INTO jobs \
             (id, run_id, user_id, query, user_tier, user_role, conversation_id, traceparent, status, due_at, created_at) \
         SELECT job.*, 'waiting', ms, ms FROM job, clock WHERE TRUE ON CONFLICT DO NOTHING",
        values(jobs.len(), 8)
    );
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for job in jobs {
        query = query.bind(&job.id).bind(&job.run_id).bind(&job.user_id).bind(&job.query);
        query = query.bind(&job.user_tier).bind(&job.user_role);
        query = query.bind(&job.conversation_id).bind(&job.traceparent);
    }
    query.execute(connection).await.map(drop)
}
