//! What tools keep in the database: what is left of what has expired, and databases that are away.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{KeyValueError, KeyValueStore as _, Space};
use backends::sql::{SqlKeyValues, SqlPool};
use futures::future::join_all;
use sqlx::{Connection as _, SqliteConnection};
use test_servers::{Postgres, eventually};

use crate::contract::key_value::{Bench, SPACE, check_unavailable, it_does_what_the_model_does, limited};
use crate::sql::{Database, migrated};

pub(crate) async fn open_values(database: Database) -> Bench {
    let (store, peer) = (open_values_of(&database).await, open_values_of(&database).await);
    Bench { store, peer, _guard: Box::new(database) }
}

async fn open_values_of(database: &Database) -> Arc<SqlKeyValues> {
    Arc::new(SqlKeyValues::new(migrated(database.pool()).await))
}

async fn rows(database: &Database) -> i64 {
    database.number("SELECT COUNT(*) FROM tool_values").await
}

/// How far the bytes that are noted are from those that are there, over all spaces.
async fn miscounted(database: &Database) -> i64 {
    let sql = "SELECT CAST(COALESCE(SUM(ABS(bytes - (SELECT COALESCE(SUM(length(key) + length(value)), 0) \
               FROM tool_values WHERE space = id))), 0) AS bigint) FROM tool_spaces";
    database.number(sql).await
}

const EXPIRE_ALL: &str = "UPDATE tool_values SET expires_at = 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_much_has_expired_all_of_it_makes_room() {
    const KEYS: usize = 700; // Some batches.
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_values_of(&database).await;
        let keys: Vec<_> = (1000..1000 + KEYS).map(|number| format!("{number}")).collect();
        let space = limited(5 * KEYS as u64);
        let hour = Some(Duration::from_secs(3600));
        for some in keys.chunks(20) {
            let sets = some.iter().map(|key| store.set(space, key, b"1", hour));
            join_all(sets).await.into_iter().for_each(Result::unwrap);
        }
        let full = KeyValueError::QuotaExceeded { quota: space.quota };
        assert_eq!(store.set(space, "k", b"", None).await, Err(full.clone()));
        database.execute(EXPIRE_ALL).await;
        assert_eq!(store.list_keys(space, "", None, 1000).await.unwrap(), [""; 0]);
        assert_eq!(rows(&database).await, KEYS as i64, "reading removes nothing");
        store.set(space, "k", &vec![0; 5 * KEYS - 1], None).await.unwrap();
        assert_eq!(store.set(space, "k", &vec![0; 5 * KEYS], None).await, Err(full), "it never fits");
        assert_eq!((rows(&database).await, miscounted(&database).await), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_removes_a_bounded_batch_of_what_has_expired() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_values_of(&database).await;
        for some in (0..700).collect::<Vec<_>>().chunks(20) {
            let keys: Vec<_> = some.iter().map(|number| format!("k{number}")).collect();
            let sets = keys.iter().map(|key| store.set(SPACE, key, b"1", None));
            join_all(sets).await.into_iter().for_each(Result::unwrap);
        }
        database.execute(EXPIRE_ALL).await;
        let other = open_values_of(&database).await;
        assert!(!other.swap(SPACE, "k7", Some(b"1"), b"2").await.unwrap());
        assert!(
            (1..700).contains(&rows(&database).await),
            "a batch, also by a write that changes nothing else"
        );
        eventually("the rest to be gone", async || {
            other.set(SPACE, "k", b"1", None).await.unwrap();
            (rows(&database).await == 1).then_some(())
        })
        .await;
        assert_eq!(miscounted(&database).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_expired_in_a_space_that_nobody_uses_any_more_is_removed_too() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_values_of(&database).await;
        for user in ["u2", "u3", "u4"] {
            let space = Space { user: Some(user), ..SPACE };
            store.set(space, "k", b"1", None).await.unwrap();
        }
        database.execute(EXPIRE_ALL).await;
        eventually("the others' to be gone", async || {
            store.set(SPACE, "k", b"1", None).await.unwrap();
            (rows(&database).await == 1).then_some(())
        })
        .await;
        assert_eq!(database.number("SELECT COUNT(*) FROM tool_spaces").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_space_leaves_nothing_and_every_byte_is_counted() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_values_of(&database).await;
        store.set(SPACE, "k", b"1", None).await.unwrap();
        assert!(store.delete(SPACE, "k").await.unwrap());
        assert!(!store.delete(SPACE, "k").await.unwrap());
        assert_eq!(
            store.set(limited(1), "k", b"1", None).await,
            Err(KeyValueError::QuotaExceeded { quota: 1 })
        );
        assert_eq!(database.number("SELECT COUNT(*) FROM tool_spaces").await, 0);
        let bench = open_values(database).await;
        it_does_what_the_model_does(&bench).await;
        let database = bench._guard.downcast::<Database>().unwrap();
        assert_eq!(miscounted(&database).await, 0);
        assert!(
            database.number("SELECT MAX(bytes) FROM tool_spaces").await > 0,
            "otherwise it shows nothing"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_is_emptied_and_filled_by_two_at_once() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let bench = open_values(database).await;
        for _ in 0..20 {
            let (deleted, set, swapped) = futures::join!(
                bench.store.delete(SPACE, "k"),
                bench.peer.set(SPACE, "k", b"1", None),
                bench.store.swap(SPACE, "k", Some(b"1"), b"22"),
            );
            deleted.unwrap();
            set.unwrap();
            swapped.unwrap();
        }
        let database = bench._guard.downcast::<Database>().unwrap();
        assert_eq!(miscounted(&database).await, 0);
        assert_eq!(
            database.number("SELECT COUNT(*) FROM tool_spaces").await,
            rows(&database).await,
            "a space without a value, or a value without its space"
        );
    }
}

#[tokio::test]
async fn a_database_that_is_away_or_frozen_is_unavailable_and_then_back() {
    let mut server = Postgres::start().await;
    let store = SqlKeyValues::new(migrated(SqlPool::postgres(&server.url()).unwrap()).await);
    store.add(SPACE, "n", 1).await.unwrap();
    server.pause().await;
    check_unavailable(&store).await;
    server.resume().await;
    eventually("the store to work", async || store.get(SPACE, "n").await.ok()).await;
    assert_eq!(store.add(SPACE, "n", 1).await.unwrap(), 2);
    server.freeze();
    check_unavailable(&store).await;
    server.thaw();
    eventually("the store to work", async || store.get(SPACE, "n").await.ok()).await;
    // What was asked of a frozen server may be done when it goes on, and once at most.
    let sum = store.add(SPACE, "n", 1).await.unwrap();
    assert!((3..=4).contains(&sum), "{sum}");
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_not_waited_for_for_ever() {
    let database = Database::sqlite();
    let store = open_values_of(&database).await;
    store.set(SPACE, "k", b"1", None).await.unwrap();
    let mut other = SqliteConnection::connect(&database.url()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    tokio::time::pause();
    let error = store.set(SPACE, "k", b"2", None).await.unwrap_err();
    tokio::time::resume();
    let KeyValueError::Unavailable(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("no answer in time") && text.contains("something else keeps it locked"), "{text}");
    assert_eq!(store.get(SPACE, "k").await.unwrap().as_deref(), Some(&b"1"[..]), "reading goes on");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    eventually("the store to write", async || store.set(SPACE, "k", b"3", None).await.ok()).await;
}

#[tokio::test]
async fn a_write_that_is_dropped_half_way_holds_nobody_up() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_values_of(&database).await;
        store.add(SPACE, "n", 1).await.unwrap();
        for turns in 0..40 {
            let mut write = Box::pin(store.add(SPACE, "n", 1));
            for _ in 0..turns {
                if futures::poll!(&mut write).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let sum = store.add(SPACE, "n", 1).await.unwrap();
        assert!((2..=42).contains(&sum), "{sum}");
        assert_eq!(store.get(SPACE, "n").await.unwrap(), Some(sum.to_string().into_bytes()));
        assert_eq!(miscounted(&database).await, 0);
    }
}
