//! Making the tables, and databases that cannot be written to.

use std::time::Duration;

use agent_core::ports::{Epoch, JobQueue as _, Journal as _, JournalError, RunStore as _};
use agent_core::words::{Event, JobData, RunQuery};
use backends::sql::{SetupError, SqlPool, SqlQueue, SqlRuns};
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use test_servers::{Postgres, Task, within};
use tokio::time::sleep;

use crate::contract::runs::some_record;
use crate::sql::{Database, migrated, open_queue_of, open_runs_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_may_start_at_once_on_sqlite() {
    // Setting up a file is quick, so that one try would seldom show processes in each other's way.
    for _ in 0..10 {
        start_ten(&Database::sqlite()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_may_start_at_once_on_postgres() {
    start_ten(&Database::postgres().await).await;
}

async fn start_ten(database: &Database) {
    let starts = (0..10).map(|_| {
        let pool = database.pool();
        Task::begin(async move { (pool.migrate().await, pool) })
    });
    for start in starts.collect::<Vec<_>>() {
        let (migrated, pool) = start.ended().await;
        assert_eq!(migrated, Ok(()));
        assert_eq!(pool.migrate().await, Ok(()), "it can be repeated");
        pool.close().await;
    }
}

/// A limit is for statements that somebody waits for. Behind PgBouncer it is the user's, and holds at the
/// direct address too.
#[tokio::test]
async fn making_tables_takes_as_long_as_it_does_whatever_limit_the_user_has() {
    let server = Postgres::start_with(&["statement_timeout=300ms"]).await;
    let pool = migrated(SqlPool::postgres(&server.url()).unwrap()).await;
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE _sqlx_migrations").execute(&mut other).await.unwrap();
    let free = async {
        sleep(Duration::from_secs(1)).await;
        other.close().await.unwrap();
    };
    let (migrated, ()) = tokio::join!(pool.migrate(), free);
    assert_eq!(migrated, Ok(()));
}

/// Everybody else would wait behind the migration for as long.
#[tokio::test]
async fn a_table_that_somebody_reads_for_long_is_not_waited_for_and_changed_by_the_next_try() {
    let database = Database::postgres().await;
    let pool = migrated(database.pool()).await;
    database.execute("ALTER TABLE jobs DROP COLUMN parent").await;
    database.execute("DELETE FROM _sqlx_migrations WHERE version = 21").await;
    let mut reader = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT FROM jobs").execute(&mut reader).await.unwrap();
    let error = within("the migration to give up", pool.migrate()).await.unwrap_err();
    assert!(matches!(error, SetupError::Locked { .. }), "{error:?}");
    assert!(error.to_string().contains("could not be locked in time"), "{error}");
    reader.close().await.unwrap();
    assert_eq!(pool.migrate().await, Ok(()));
}

/// An operator may have the tables made by another role.
#[tokio::test]
async fn a_role_that_may_create_nothing_starts_where_the_tables_are_there() {
    let server = Postgres::start().await;
    let owner = SqlPool::postgres(&server.url()).unwrap();
    let url = server.url() + "?options=-c%20role%3Duser_only";
    let user = SqlPool::postgres(&url).unwrap();
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let role = "CREATE ROLE user_only; REVOKE CREATE ON SCHEMA public FROM public";
    sqlx::raw_sql(role).execute(&mut connection).await.unwrap();
    let error = user.migrate().await.unwrap_err();
    assert!(error.to_string().contains("lacks a privilege"), "{error}");
    owner.migrate().await.unwrap();
    let grant = "GRANT SELECT ON _sqlx_migrations TO user_only";
    sqlx::raw_sql(grant).execute(&mut connection).await.unwrap();
    assert_eq!(user.migrate().await, Ok(()));
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    for database in [Database::sqlite(), Database::postgres().await] {
        database.pool().migrate().await.unwrap();
        database
            .execute(
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (999, 'what is to come', TRUE, '', 0)",
            )
            .await;
        let error = database.pool().migrate().await.unwrap_err();
        assert_eq!(error, SetupError::Newer { version: 999 });
        assert_eq!(database.pool().check_migrations().await, Err(error.clone()));
        assert!(error.to_string().contains("newer than this program"), "{error}");
    }
}

/// A release that runs on, whose statements are prepared.
#[tokio::test]
async fn a_column_that_a_newer_program_adds_fails_no_reader_of_records() {
    let database = Database::postgres().await;
    let (runs, _writing) = open_runs_of(&database).await;
    runs.save(&some_record("run_1")).await.unwrap();
    for _ in 0..2 {
        assert!(runs.find("run_1").await.unwrap().is_some());
        assert_eq!(runs.list(&RunQuery { limit: 9, ..RunQuery::default() }).await.unwrap().len(), 1);
        runs.find_by_job("j", "u").await.unwrap();
        database.execute("ALTER TABLE run_records ADD COLUMN IF NOT EXISTS added_later text").await;
    }
}

#[tokio::test]
async fn looking_at_the_migrations_of_a_database_makes_none() {
    for database in [Database::sqlite(), Database::postgres().await] {
        assert_eq!(database.pool().check_migrations().await, Ok(()), "none was run yet");
        // The statement fails where there is such a table already.
        database.execute("CREATE TABLE _sqlx_migrations (version INTEGER)").await;
        database.execute("DROP TABLE _sqlx_migrations").await;
        database.pool().migrate().await.unwrap();
        assert_eq!(database.pool().check_migrations().await, Ok(()));
        // What an earlier release left is brought up to date at the start.
        database.execute("DELETE FROM _sqlx_migrations WHERE version > 20").await;
        assert_eq!(database.pool().check_migrations().await, Ok(()));
        database.execute("UPDATE _sqlx_migrations SET success = FALSE WHERE version = 20").await;
        let failed = database.pool().check_migrations().await;
        assert_eq!(failed, Err(SetupError::Foreign { version: 20 }));
    }
}

#[tokio::test]
async fn tables_of_somebody_else_are_left_alone() {
    for database in [Database::sqlite(), Database::postgres().await] {
        database.pool().migrate().await.unwrap();
        database.execute("UPDATE _sqlx_migrations SET checksum = '' WHERE version = 1").await;
        let foreign = Err(SetupError::Foreign { version: 1 });
        assert_eq!(database.pool().migrate().await, foreign);
        assert_eq!(database.pool().check_migrations().await, foreign);
        let other = match &database {
            Database::Sqlite(_) => Database::sqlite(),
            Database::Postgres { .. } => Database::postgres().await,
        };
        other.execute("CREATE TABLE jobs (id INTEGER)").await;
        assert!(matches!(other.pool().migrate().await, Err(SetupError::Store { .. })));
        other.execute("DROP TABLE jobs").await;
        assert_eq!(other.pool().migrate().await, Ok(()), "nothing was left half-done, and no lock");
    }
}

#[tokio::test]
async fn a_database_that_is_down_is_set_up_when_it_is_back() {
    let mut server = Postgres::start().await;
    server.pause().await;
    let pool = SqlPool::postgres(&server.url()).unwrap();
    let error = pool.migrate().await.unwrap_err();
    assert!(matches!(error, SetupError::Store { .. }), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains("hunter2") && !text.contains(&server.address().to_string()), "{text}");
    server.resume().await;
    assert_eq!(pool.migrate().await, Ok(()));
}

#[tokio::test]
async fn a_read_only_database_is_said_to_be_one() {
    let database = Database::sqlite();
    let pool = migrated(database.pool()).await;
    pool.close().await;
    let pool = SqlPool::sqlite(&format!("{}?mode=ro", database.url())).unwrap();
    check_read_only(pool).await;

    let database = Database::postgres().await;
    database.pool().migrate().await.unwrap();
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", database.url());
    check_read_only(SqlPool::postgres(&url).unwrap()).await;
}

async fn check_read_only(pool: SqlPool) {
    let error = pool.migrate().await.unwrap_err();
    assert!(error.to_string().contains("the database is read-only"), "{error}");
    let (runs, writing) = SqlRuns::new(pool.clone());
    let _writing = Task::begin(writing.run());
    let error = runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap_err();
    assert!(error.to_string().contains("the database is read-only"), "{error}");
    assert_eq!(runs.read("run_1", 0).await, Ok(vec![]), "reading goes on");
    let (queue, adding) = SqlQueue::new(pool);
    let _adding = Task::begin(adding.run());
    let error = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap_err();
    assert!(error.to_string().contains("the database is read-only"), "{error}");
    let error = queue.claim("worker", Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("the database is read-only"), "{error}");
}

#[tokio::test]
async fn what_is_no_database_file_is_said_to_be_none() {
    let database = Database::sqlite();
    let path = database.url().replace("sqlite://", "");
    std::fs::write(&path, "Dear diary, ".repeat(1000)).unwrap();
    let error = database.pool().migrate().await.unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
    assert!(!error.to_string().contains(&path), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("Dear diary"), "it was overwritten");
}

#[tokio::test]
async fn tables_that_were_never_made_are_missed_aloud() {
    let database = Database::postgres().await;
    let (runs, _writing) = SqlRuns::new(database.pool());
    let error = runs.read("run_1", 0).await.unwrap_err();
    assert!(error.to_string().contains("its tables are missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_damages_no_sqlite_file() {
    let database = Database::sqlite();
    let (runs, writing) = open_runs_of(&database).await;
    let (queue, adding) = open_queue_of(&database).await;
    for sequence in 0..200 {
        runs.append("run_1", Epoch(1), sequence, &[Event::Cancelled]).await.unwrap();
    }
    let id = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    // What a killed process leaves: the file and its log, copied while both are open.
    let copy = Database::sqlite();
    for ending in ["", "-wal"] {
        let path = |database: &Database| database.url().replace("sqlite://", "") + ending;
        std::fs::copy(path(&database), path(&copy)).unwrap();
    }
    drop((writing, adding));
    let (runs, _writing) = open_runs_of(&copy).await;
    assert_eq!(runs.read("run_1", 0).await.unwrap().len(), 200);
    let (queue, _adding) = open_queue_of(&copy).await;
    assert!(queue.read(&id).await.unwrap().is_some());
    let mut connection = SqliteConnection::connect(&copy.url()).await.unwrap();
    let found: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!(found, "ok");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let pool = migrated(database.pool()).await;
        let (runs, writing) = SqlRuns::new(pool.clone());
        let writing = Task::begin(writing.run());
        runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        pool.close().await;
        let error = runs.append("run_1", Epoch(1), 1, &[Event::Cancelled]).await.unwrap_err();
        assert_eq!(error, JournalError::Store { detail: "the service is shutting down".into() });
        drop(runs);
        writing.ended().await;
    }
}
