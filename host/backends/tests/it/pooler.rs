//! PostgreSQL behind PgBouncer in transaction mode: before 1.21 it is refused by name, from then on it is
//! used.

use std::time::Duration;

use agent_core::ports::{
    AttemptEnd, Epoch, JobQueue as _, Journal as _, StoreCheck as _, StoreCheckError, StoreFindings,
};
use agent_core::words::{Event, JobData};
use backends::sql::{SqlPool, SqlQueue, SqlRuns};
use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use test_servers::{PATIENCE, PgBouncer, PgBouncerProgram, Postgres, Task, eventually};

#[tokio::test]
async fn a_pooler_that_mixes_up_prepared_statements_is_refused_by_name() {
    let server = Postgres::start().await;
    for program in PgBouncerProgram::all() {
        let settings: &[_] =
            if program.knows_prepared_statements { &["max_prepared_statements = 0"] } else { &[] };
        let pooler = PgBouncer::start(&program, &server, settings).await;
        for direct in [None, Some(server.url())] {
            let pool = SqlPool::postgres_with(&pooler.url(), direct.as_deref()).unwrap();
            let refused = pool.check().unwrap().check().await;
            let Err(StoreCheckError::Unfit { problem }) = refused else { panic!("{program:?}: {refused:?}") };
            assert!(problem.contains("PgBouncer 1.21 or newer with max_prepared_statements"), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}

#[tokio::test]
async fn a_pooler_whose_clients_have_sessions_of_their_own_is_used_like_the_server() {
    let server = Postgres::start().await;
    for program in PgBouncerProgram::all() {
        let pooler = PgBouncer::start(&program, &server, &["pool_mode = session"]).await;
        let pool = SqlPool::postgres(&pooler.url()).unwrap();
        let warnings = pool.check().unwrap().check().await.unwrap();
        // PgBouncer in session mode does not pass on what a session is to be like.
        assert_eq!(warnings.iter().map(|warning| warning.setting).collect::<Vec<_>>(), ["statement_timeout"]);
        work(&pool).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_keeps_prepared_statements_apart_is_used() {
    let Some(program) = PgBouncerProgram::fit() else { return };
    let server = Postgres::start().await;
    let settings = ["max_prepared_statements = 200", "default_pool_size = 3"];
    let pooler = PgBouncer::start(&program, &server, &settings).await;
    for (direct, expected) in [
        (None, &["DATABASE_DIRECT_URL", "statement_timeout"][..]),
        (Some(server.url()), &["statement_timeout"]),
    ] {
        let pool = SqlPool::postgres_with(&pooler.url(), direct.as_deref()).unwrap();
        let warnings = pool.check().unwrap().check().await.unwrap();
        assert_eq!(warnings.iter().map(|warning| warning.setting).collect::<Vec<_>>(), expected);
        work(&pool).await;
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let held = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
        assert_eq!(
            held.fetch_one(&mut connection).await.unwrap(),
            0,
            "a lock stays with a session of the pooler"
        );
        let findings = StoreFindings::default();
        let (queue, adding) = SqlQueue::reporting(pool, findings.clone());
        let _adding = Task::begin(adding.run());
        assert_eq!(queue.claim("worker", Duration::ZERO).await.unwrap(), None);
        if direct.is_none() {
            let warning =
                eventually("it to be said that workers poll", async || findings.warnings().pop()).await;
            assert!(warning.problem.contains("looked for once a second"), "{warning:?}");
        }
    }
}

#[tokio::test]
async fn a_pooler_that_takes_no_more_clients_is_said_to_be_full() {
    let server = Postgres::start().await;
    for program in PgBouncerProgram::all() {
        let pooler = PgBouncer::start(&program, &server, &["max_client_conn = 1"]).await;
        let other = pooler.url().parse::<PgConnectOptions>().unwrap().extra_float_digits(None);
        let other = other.connect().await.unwrap();
        let check = SqlPool::postgres(&pooler.url()).unwrap().check().unwrap();
        let Err(StoreCheckError::Away { detail }) = check.check().await else { panic!("it has room") };
        assert!(detail.contains("raise its max_client_conn"), "{detail}");
        other.close().await.unwrap();
        eventually("the pooler to have room", async || check.check().await.ok()).await;
    }
}

/// Several processes at once, so that sessions are shared.
async fn work(pool: &SqlPool) {
    let migrated = join_all((0..3).map(|_| pool.migrate())).await;
    migrated.into_iter().for_each(Result::unwrap);
    let processes: Vec<_> = (0..3)
        .map(|number| {
            let pool = pool.clone();
            Task::begin(async move {
                let (queue, adding) = SqlQueue::new(pool.clone());
                let (runs, writing) = SqlRuns::new(pool);
                let writers = (Task::begin(adding.run()), Task::begin(writing.run()));
                let job = JobData::new("2 + 3", "u1");
                for _ in 0..20 {
                    queue.add(&job).await.unwrap();
                    let claim = queue.claim(&format!("worker#{number}"), PATIENCE).await.unwrap().unwrap();
                    runs.append(&claim.run_id, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
                    assert_eq!(runs.read(&claim.run_id, 0).await.unwrap(), [Event::Cancelled]);
                    queue.settle(&claim, &AttemptEnd::Cancelled).await.unwrap();
                }
                // `writers` write for all who have this pool, and go on until all have ended.
                writers
            })
        })
        .collect();
    let _writers = join_all(processes.into_iter().map(Task::ended)).await;
}
