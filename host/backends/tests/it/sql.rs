//! SQLite and PostgreSQL: the suites of their ports, and what the files `sql_….rs` add for them alone.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_core::ports::RetainedKind;
use backends::sql::{
    SqlConversations, SqlHttpRecordings, SqlIdempotency, SqlPool, SqlQueue, SqlRetention, SqlRuns,
    SqlWebhooks,
};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqlSafeStr, SqliteConnection};
use tempfile::TempDir;
use test_servers::{Postgres, Task};
use tokio::sync::Mutex;

use crate::contract::{conversations, http_recordings, idempotency, queue, runs, webhooks};

/// Short enough to wait for, long enough for a slow machine to renew it in time.
const LEASE: Duration = Duration::from_secs(2);

/// The tests of a suite on either database: each case by itself on SQLite, all in turn on PostgreSQL, whose
/// server takes longer to start than most cases take.
macro_rules! suites {
    ($($name:ident: $suite:ident, $open:path;)+) => {
        mod sqlite {
            $(mod $name {
                async fn open() -> crate::contract::$suite::Bench {
                    $open(crate::sql::Database::sqlite()).await
                }
                crate::contract::$suite::test_all!(test_each(open));
            })+
        }

        mod postgres {
            $(mod $name {
                async fn open(_server: &crate::sql::Server) -> crate::contract::$suite::Bench {
                    $open(crate::sql::Database::postgres().await).await
                }
                crate::contract::$suite::test_all!(test_in_turn(crate::sql::start, open));
            })+
        }
    };
}

suites! {
    runs: runs, crate::sql::open_runs;
    queue: queue, crate::sql::open_queue;
    key_value: key_value, crate::sql_key_values::open_values;
    tool_versions: tool_versions, crate::sql_tool_versions::open_versions;
    http_recordings: http_recordings, crate::sql::open_recordings;
    idempotency: idempotency, crate::sql::open_keys;
    webhooks: webhooks, crate::sql::open_webhooks;
    conversations: conversations, crate::sql::open_conversations;
    retention_of_runs: retention, crate::sql_retention::open_runs;
    retention_of_jobs: retention, crate::sql_retention::open_jobs;
    retention_of_conversations: retention, crate::sql_retention::open_conversations;
}

/// A PostgreSQL server that the databases of a process share while one of them holds it.
pub(crate) type Server = Arc<Postgres>;

async fn start() -> Option<Server> {
    Some(Database::server().await)
}

/// An empty database.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(TempDir),
    Postgres { _server: Server, url: String },
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// The server that the tests of a process share.
    async fn server() -> Server {
        static SERVER: Mutex<Weak<Postgres>> = Mutex::const_new(Weak::new());
        let mut shared = SERVER.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(Postgres::start().await),
        };
        *shared = Arc::downgrade(&server);
        server
    }

    /// Of its own, on that server.
    pub(crate) async fn postgres() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = Self::server().await;
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

    /// The connections of two processes, when the tables are there.
    pub(crate) async fn replicas(&self) -> [SqlPool; 2] {
        [migrated(self.pool()).await, self.pool()]
    }

    /// Whatever the test does to the database behind the back of the store.
    pub(crate) async fn execute(&self, sql: impl SqlSafeStr) {
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

    /// The number that is found there behind the back of the store.
    pub(crate) async fn number(&self, sql: impl SqlSafeStr) -> i64 {
        match self {
            Self::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.url()).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
            }
            Self::Postgres { url, .. } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
            }
        }
    }
}

/// The connections of a pool, when the tables are there.
pub(crate) async fn migrated(pool: SqlPool) -> SqlPool {
    pool.migrate().await.unwrap();
    pool
}

/// The migrations of a folder before that one, as the program had them that knew no more.
pub(crate) fn migrations_before(version: i64, dialect: &str) -> Migrator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(dialect);
    let read = |file: io::Result<DirEntry>| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let (version, name) = name.split_once('_').unwrap();
        let sql = AssertSqlSafe(fs::read_to_string(file.path()).unwrap()).into_sql_str();
        let (version, kind) = (version.parse().unwrap(), MigrationType::Simple);
        Migration::new(version, name.to_owned().into(), kind, sql, false)
    };
    let mut migrations: Vec<_> = fs::read_dir(folder).unwrap().map(read).collect();
    migrations.retain(|migration| migration.version < version);
    migrations.sort_by_key(|migration| migration.version);
    Migrator::with_migrations(migrations)
}

async fn open_runs(database: Database) -> runs::Bench {
    let (runs, writing) = open_runs_of(&database).await;
    let (peer, writing_of_peer) = open_runs_of(&database).await;
    runs::Bench { store: runs, peer, _guard: Box::new((writing, writing_of_peer, database)) }
}

async fn open_recordings(database: Database) -> http_recordings::Bench {
    let [store, peer] = database.replicas().await.map(|pool| Arc::new(SqlHttpRecordings::new(pool)));
    http_recordings::Bench { store, peer, _guard: Box::new(database) }
}

async fn open_keys(database: Database) -> idempotency::Bench {
    let open = |pool| Arc::new(SqlIdempotency::new(pool).with_bounds(idempotency::BOUNDS));
    let [store, peer] = database.replicas().await.map(open);
    idempotency::Bench { store, peer, _guard: Box::new(database) }
}

async fn open_webhooks(database: Database) -> webhooks::Bench {
    let [store, peer] = database.replicas().await.map(|pool| Arc::new(SqlWebhooks::new(pool)));
    webhooks::Bench { store, peer, _guard: Box::new(database) }
}

async fn open_conversations(database: Database) -> conversations::Bench {
    let [store, peer] = database.replicas().await.map(|pool| Arc::new(SqlConversations::new(pool)));
    let retention = Arc::new(SqlRetention::new(database.pool(), RetainedKind::Conversations));
    conversations::Bench { store, peer, retention: Some(retention), _guard: Box::new(database) }
}

async fn open_queue(database: Database) -> queue::Bench {
    let (queue, adding) = open_queue_of(&database).await;
    let (peer, adding_of_peer) = open_queue_of(&database).await;
    queue::Bench { queue, peer, lease: LEASE, _guard: Box::new((adding, adding_of_peer, database)) }
}

pub(crate) async fn open_runs_of(database: &Database) -> (Arc<SqlRuns>, Task<()>) {
    let (runs, writing) = SqlRuns::new(migrated(database.pool()).await);
    (Arc::new(runs), Task::begin(writing.run()))
}

pub(crate) async fn open_queue_of(database: &Database) -> (Arc<SqlQueue>, Task<()>) {
    let (queue, adding) = SqlQueue::new(migrated(database.pool()).await);
    (Arc::new(queue.with_lease(LEASE)), Task::begin(adding.run()))
}
