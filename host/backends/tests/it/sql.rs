//! SQLite and PostgreSQL: the suites of their ports, and what the files `sql_….rs` add for them alone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_core::ports::RetainedKind;
use backends::sql::{
    SqlConversations, SqlHttpRecordings, SqlIdempotency, SqlPool, SqlQueue, SqlRetention, SqlRuns,
    SqlWebhooks,
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;
use test_servers::{Postgres, Task};
use tokio::sync::Mutex;

use crate::contract::{conversations, http_recordings, idempotency, queue, runs, webhooks};

/// Short enough to wait for, long enough for a slow machine to renew it in time.
const LEASE: Duration = Duration::from_secs(2);

mod sqlite {
    use super::*;

    mod runs {
        crate::contract::runs::test_all!(super::open_runs);
    }

    mod queue {
        crate::contract::queue::test_all!(super::open_queue);
    }

    mod key_value {
        crate::contract::key_value::test_all!(super::open_values);
    }

    mod tool_versions {
        crate::contract::tool_versions::test_all!(super::open_versions);
    }

    mod http_recordings {
        crate::contract::http_recordings::test_all!(super::open_recordings);
    }

    mod retention_of_runs {
        crate::contract::retention::test_all!(super::open_retained_runs);
    }

    mod retention_of_jobs {
        crate::contract::retention::test_all!(super::open_retained_jobs);
    }

    async fn open_retained_runs() -> crate::contract::retention::Bench {
        crate::sql_retention::open_runs(Database::sqlite()).await
    }

    async fn open_retained_jobs() -> crate::contract::retention::Bench {
        crate::sql_retention::open_jobs(Database::sqlite()).await
    }

    mod idempotency {
        crate::contract::idempotency::test_all!(super::open_keys);
    }

    mod webhooks {
        crate::contract::webhooks::test_all!(super::open_webhooks);
    }

    async fn open_runs() -> crate::contract::runs::Bench {
        super::open_runs(Database::sqlite()).await
    }

    async fn open_queue() -> crate::contract::queue::Bench {
        super::open_queue(Database::sqlite()).await
    }

    async fn open_values() -> crate::contract::key_value::Bench {
        crate::sql_key_values::open_values(Database::sqlite()).await
    }

    async fn open_versions() -> crate::contract::tool_versions::Bench {
        crate::sql_tool_versions::open_versions(Database::sqlite()).await
    }

    async fn open_recordings() -> crate::contract::http_recordings::Bench {
        super::open_recordings(Database::sqlite()).await
    }

    async fn open_keys() -> crate::contract::idempotency::Bench {
        super::open_keys(Database::sqlite()).await
    }

    async fn open_webhooks() -> crate::contract::webhooks::Bench {
        super::open_webhooks(Database::sqlite()).await
    }

    mod conversations {
        crate::contract::conversations::test_all!(super::open_conversations);
    }

    mod retention_of_conversations {
        crate::contract::retention::test_all!(super::open_retained_conversations);
    }

    async fn open_conversations() -> crate::contract::conversations::Bench {
        super::open_conversations(Database::sqlite()).await
    }

    async fn open_retained_conversations() -> crate::contract::retention::Bench {
        crate::sql_retention::open_conversations(Database::sqlite()).await
    }
}

mod postgres {
    use super::*;

    mod runs {
        crate::contract::runs::test_all!(super::open_runs);
    }

    mod queue {
        crate::contract::queue::test_all!(super::open_queue);
    }

    mod key_value {
        crate::contract::key_value::test_all!(super::open_values);
    }

    mod tool_versions {
        crate::contract::tool_versions::test_all!(super::open_versions);
    }

    mod http_recordings {
        crate::contract::http_recordings::test_all!(super::open_recordings);
    }

    mod retention_of_runs {
        crate::contract::retention::test_all!(super::open_retained_runs);
    }

    mod retention_of_jobs {
        crate::contract::retention::test_all!(super::open_retained_jobs);
    }

    async fn open_retained_runs() -> crate::contract::retention::Bench {
        crate::sql_retention::open_runs(Database::postgres().await).await
    }

    async fn open_retained_jobs() -> crate::contract::retention::Bench {
        crate::sql_retention::open_jobs(Database::postgres().await).await
    }

    mod idempotency {
        crate::contract::idempotency::test_all!(super::open_keys);
    }

    mod webhooks {
        crate::contract::webhooks::test_all!(super::open_webhooks);
    }

    async fn open_runs() -> crate::contract::runs::Bench {
        super::open_runs(Database::postgres().await).await
    }

    async fn open_queue() -> crate::contract::queue::Bench {
        super::open_queue(Database::postgres().await).await
    }

    async fn open_values() -> crate::contract::key_value::Bench {
        crate::sql_key_values::open_values(Database::postgres().await).await
    }

    async fn open_versions() -> crate::contract::tool_versions::Bench {
        crate::sql_tool_versions::open_versions(Database::postgres().await).await
    }

    async fn open_recordings() -> crate::contract::http_recordings::Bench {
        super::open_recordings(Database::postgres().await).await
    }

    async fn open_keys() -> crate::contract::idempotency::Bench {
        super::open_keys(Database::postgres().await).await
    }

    async fn open_webhooks() -> crate::contract::webhooks::Bench {
        super::open_webhooks(Database::postgres().await).await
    }

    mod conversations {
        crate::contract::conversations::test_all!(super::open_conversations);
    }

    mod retention_of_conversations {
        crate::contract::retention::test_all!(super::open_retained_conversations);
    }

    async fn open_conversations() -> crate::contract::conversations::Bench {
        super::open_conversations(Database::postgres().await).await
    }

    async fn open_retained_conversations() -> crate::contract::retention::Bench {
        crate::sql_retention::open_conversations(Database::postgres().await).await
    }
}

/// An empty database.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(TempDir),
    Postgres { _server: Arc<Postgres>, url: String },
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// Of its own, on the server that the tests of a process share.
    pub(crate) async fn postgres() -> Self {
        static SERVER: Mutex<Weak<Postgres>> = Mutex::const_new(Weak::new());
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut shared = SERVER.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(Postgres::start().await),
        };
        *shared = Arc::downgrade(&server);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&mut connection).await.unwrap();
        let url = server.url();
        let (address, _its_first_database) = url.rsplit_once('/').unwrap();
        Self::Postgres { url: format!("{address}/{name}"), _server: server }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("test.db").display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// The connections of one process.
    pub(crate) fn pool(&self) -> SqlPool {
        match self {
            Self::Sqlite(_) => SqlPool::sqlite(&self.url()).unwrap(),
            Self::Postgres { url, .. } => SqlPool::postgres(url).unwrap(),
        }
    }

    /// Whatever the test does to the database behind the back of the store.
    pub(crate) async fn execute(&self, sql: &'static str) {
        let done = match self {
            Self::Sqlite(_) => {
                let url = self.url() + "?mode=rwc";
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
            }
            Self::Postgres { url, .. } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
            }
        };
        done.unwrap();
    }
}

async fn open_runs(database: Database) -> runs::Bench {
    let (runs, writing) = open_runs_of(&database).await;
    let (peer, writing_of_peer) = open_runs_of(&database).await;
    runs::Bench { runs, peer, _guard: Box::new((writing, writing_of_peer, database)) }
}

async fn open_recordings(database: Database) -> http_recordings::Bench {
    let pools = [database.pool(), database.pool()];
    for pool in &pools {
        pool.migrate().await.unwrap();
    }
    let [store, peer] = pools.map(|pool| Arc::new(SqlHttpRecordings::new(pool)));
    http_recordings::Bench { store, peer, _guard: Box::new(database) }
}

async fn open_keys(database: Database) -> idempotency::Bench {
    let pools = [database.pool(), database.pool()];
    for pool in &pools {
        pool.migrate().await.unwrap();
    }
    let [store, peer] =
        pools.map(|pool| Arc::new(SqlIdempotency::new(pool).with_bounds(idempotency::BOUNDS)));
    idempotency::Bench { store, peer, _guard: Box::new(database) }
}

async fn open_webhooks(database: Database) -> webhooks::Bench {
    let pools = [database.pool(), database.pool()];
    for pool in &pools {
        pool.migrate().await.unwrap();
    }
    let [outbox, peer] = pools.map(|pool| Arc::new(SqlWebhooks::new(pool)));
    webhooks::Bench { outbox, peer, _guard: Box::new(database) }
}

async fn open_conversations(database: Database) -> conversations::Bench {
    database.pool().migrate().await.unwrap();
    let [store, peer] = [database.pool(), database.pool()].map(|pool| Arc::new(SqlConversations::new(pool)));
    let retention = Arc::new(SqlRetention::new(database.pool(), RetainedKind::Conversations));
    conversations::Bench { store, peer, retention: Some(retention), _guard: Box::new(database) }
}

async fn open_queue(database: Database) -> queue::Bench {
    let (queue, adding) = open_queue_of(&database).await;
    let (peer, adding_of_peer) = open_queue_of(&database).await;
    queue::Bench { queue, peer, lease: LEASE, _guard: Box::new((adding, adding_of_peer, database)) }
}

pub(crate) async fn open_runs_of(database: &Database) -> (Arc<SqlRuns>, Task<()>) {
    let pool = database.pool();
    pool.migrate().await.unwrap();
    let (runs, writing) = SqlRuns::new(pool);
    (Arc::new(runs), Task::begin(writing.run()))
}

pub(crate) async fn open_queue_of(database: &Database) -> (Arc<SqlQueue>, Task<()>) {
    let pool = database.pool();
    pool.migrate().await.unwrap();
    let (queue, adding) = SqlQueue::new(pool);
    (Arc::new(queue.with_lease(LEASE)), Task::begin(adding.run()))
}
