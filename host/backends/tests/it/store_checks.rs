//! The settings of real servers: which of them weaken a promise, and which keep the service from being used.

use agent_core::ports::{Probe as _, StoreCheck, StoreCheckError};
use backends::sql::{SqlPool, SqlProbe};
use futures::future::join_all;
use redis_stores::redis::{Redis, RedisCheck, RedisUse};
use test_servers::{Postgres, eventually};

/// The settings that are warned of, or what keeps the store from being used.
async fn found(check: &impl StoreCheck) -> Result<Vec<&'static str>, StoreCheckError> {
    check.check().await.map(|warnings| warnings.iter().map(|warning| warning.setting).collect())
}

async fn redis(options: &[&str]) -> (test_servers::Redis, RedisCheck) {
    let server = test_servers::Redis::start_with(options).await;
    let check = RedisCheck::new(Redis::open(&server.url()).unwrap(), RedisUse::Queue);
    (server, check)
}

#[tokio::test]
async fn a_redis_that_keeps_everything_is_not_warned_of() {
    let (_server, check) = redis(&[]).await;
    assert_eq!(found(&check).await, Ok(vec![]));
}

#[tokio::test]
async fn a_redis_that_evicts_is_not_used_behind_the_queue() {
    let (server, check) = redis(&["--maxmemory-policy", "allkeys-lru"]).await;
    let Err(StoreCheckError::Unfit { problem }) = check.check().await else { panic!("it is used") };
    assert!(
        problem.contains("allkeys-lru") && problem.contains("set maxmemory-policy to noeviction"),
        "{problem}"
    );
    let values = RedisCheck::new(Redis::open(&server.url()).unwrap(), RedisUse::ToolValues);
    assert_eq!(found(&values).await, Ok(vec!["maxmemory-policy"]));
}

#[tokio::test]
async fn a_redis_that_may_lose_what_it_accepted_is_warned_of() {
    for (options, expected) in [
        (&["--appendfsync", "everysec"][..], vec!["appendfsync"]),
        (&["--appendfsync", "no"], vec!["appendfsync"]),
        (&["--appendonly", "no", "--save", "3600 1"], vec!["appendonly"]),
        (&["--appendonly", "no"], vec!["appendonly"]),
    ] {
        let (_server, check) = redis(options).await;
        assert_eq!(found(&check).await, Ok(expected), "{options:?}");
    }
}

/// As managed ones do.
#[tokio::test]
async fn what_a_redis_does_not_let_ask_is_read_elsewhere_or_warned_of() {
    let no_config = ["--rename-command", "CONFIG", ""];
    let (_server, check) = redis(&no_config).await;
    assert_eq!(found(&check).await, Ok(vec!["appendfsync"]));
    let (_server, check) = redis(&[&["--maxmemory-policy", "volatile-lru"], &no_config[..]].concat()).await;
    assert!(matches!(found(&check).await, Err(StoreCheckError::Unfit { .. })));
    let (_server, check) = redis(&[&["--rename-command", "INFO", ""], &no_config[..]].concat()).await;
    assert_eq!(found(&check).await, Ok(vec!["version", "maxmemory-policy", "appendonly"]));
}

/// Redis is asked again soon, and nothing is said of settings that nobody has seen.
#[tokio::test]
async fn a_redis_that_does_not_let_us_in_is_not_taken_for_one_that_tells_nothing() {
    let evicting = ["--maxmemory-policy", "allkeys-lru"];
    let (server, check) = redis(&[&["--requirepass", "hunter2"], &evicting[..]].concat()).await;
    let Err(StoreCheckError::Away { detail }) = check.check().await else { panic!("it was let in") };
    assert!(detail.contains("NOAUTH"), "{detail}");
    let url = server.url().replace("://", "://:hunter2@");
    let check = |url: &str| RedisCheck::new(Redis::open(url).unwrap(), RedisUse::Queue);
    assert!(matches!(found(&check(&format!("{url}/99"))).await, Err(StoreCheckError::Away { .. })));
    assert!(matches!(found(&check(&url)).await, Err(StoreCheckError::Unfit { .. })));
}

#[tokio::test]
async fn a_redis_that_is_away_is_checked_when_it_is_there() {
    let (mut server, check) = redis(&["--appendfsync", "everysec"]).await;
    server.pause().await;
    assert!(matches!(found(&check).await, Err(StoreCheckError::Away { .. })));
    server.resume().await;
    let warned = eventually("Redis to be checked", async || found(&check).await.ok()).await;
    assert_eq!(warned, ["appendfsync"]);
}

#[tokio::test]
async fn a_postgres_is_warned_of_by_what_it_may_lose_and_by_the_room_it_has() {
    let mut server = Postgres::start_with(&["synchronous_commit=off", "max_connections=23"]).await;
    let check = SqlPool::postgres(&server.url()).unwrap().check().unwrap();
    assert_eq!(found(&check).await, Ok(vec!["synchronous_commit", "max_connections"]));
    server.pause().await;
    assert!(matches!(found(&check).await, Err(StoreCheckError::Away { .. })));
    server.resume().await;
    assert_eq!(found(&check).await, Ok(vec!["synchronous_commit", "max_connections"]));
    assert!(SqlPool::sqlite("sqlite://:memory:").unwrap().check().is_none());
}

/// Statements are written for `read committed`: with more isolation, of two that meet one fails.
#[tokio::test]
async fn a_session_has_the_isolation_of_its_statements_whatever_the_server_would_give_it() {
    let server = Postgres::start_with(&["default_transaction_isolation=serializable"]).await;
    let check = |url: &str| SqlPool::postgres(url).unwrap().check().unwrap();
    assert_eq!(found(&check(&server.url())).await, Ok(vec![]));
    let asked_for = server.url() + "?options=-c%20default_transaction_isolation%3Dserializable";
    assert_eq!(found(&check(&asked_for)).await, Ok(vec!["default_transaction_isolation"]));
    let starts = join_all((0..4).map(async |_| SqlPool::postgres(&server.url()).unwrap().migrate().await));
    for migrated in starts.await {
        assert_eq!(migrated, Ok(()));
    }
}

#[tokio::test]
async fn each_process_that_is_connected_wants_its_share_of_the_connections() {
    let server = Postgres::start().await;
    let processes: Vec<_> = (0..5).map(|_| SqlPool::postgres(&server.url()).unwrap()).collect();
    let check = processes[0].check().unwrap();
    assert_eq!(found(&check).await, Ok(vec![]));
    for process in &processes {
        SqlProbe(process.clone()).check().await.unwrap();
    }
    let warnings = check.check().await.unwrap();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((warning.store, warning.setting), ("database", "max_connections"));
    assert!(warning.problem.contains("5 processes of up to 21"), "{warning:?}");
}

#[tokio::test]
async fn a_direct_address_of_another_server_is_refused_and_one_that_is_away_is_warned_of() {
    let (server, mut other) = tokio::join!(Postgres::start(), Postgres::start());
    let check = |direct: &str| SqlPool::postgres_with(&server.url(), Some(direct)).unwrap().check().unwrap();
    assert_eq!(found(&check(&server.url())).await, Ok(vec![]));
    let Err(StoreCheckError::Unfit { problem }) = found(&check(&other.url())).await else {
        panic!("it is used")
    };
    assert!(problem.contains("DATABASE_DIRECT_URL names another"), "{problem}");
    other.pause().await;
    assert_eq!(found(&check(&other.url())).await, Ok(vec!["DATABASE_DIRECT_URL"]));
}
