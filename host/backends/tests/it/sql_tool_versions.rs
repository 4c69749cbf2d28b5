//! Versions of components in the database: what is left behind, databases that are away, and those of an
//! older program.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::tool_versions::VersionsError;
use agent_core::ports::{KeyValueStore as _, ToolVersions as _};
use agent_core::words::{ComponentRecord, TrialCounts};
use backends::sql::{SqlKeyValues, SqlPool, SqlToolVersions};
use boxed_async::boxed_async;
use futures::future::join_all;
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use test_servers::{Postgres, Task, eventually, within};

use crate::contract::key_value::SPACE;
use crate::contract::tool_versions::{
    BehindTheStore, Bench, check_unavailable, component, line, random_bytes, record_of,
};
use crate::sql::{Database, migrated, migrations_before};

const AN_HOUR_PASSES: &str = "UPDATE tool_components SET kept_at = kept_at - 3600000; \
                              UPDATE tool_blobs SET begun_at = begun_at - 3600000";

pub(crate) async fn open_versions(database: Database) -> Bench {
    let (store, peer) = (open_versions_of(&database).await, open_versions_of(&database).await);
    Bench { store, peer, behind: Box::new(database) }
}

async fn open_versions_of(database: &Database) -> Arc<SqlToolVersions> {
    Arc::new(SqlToolVersions::new(migrated(database.pool()).await))
}

#[boxed_async]
impl BehindTheStore for Database {
    async fn damage(&self) {
        self.execute("UPDATE tool_records SET record = '{' WHERE name = 'damaged'").await;
    }

    async fn an_hour_passes(&self) {
        self.execute(AN_HOUR_PASSES).await;
    }
}

async fn blobs_and_chunks(database: &Database) -> (i64, i64) {
    let blobs = database.number("SELECT COUNT(*) FROM tool_blobs").await;
    (blobs, database.number("SELECT COUNT(*) FROM tool_blob_chunks").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_another_process_writes_is_announced_on_postgres() {
    let database = Database::postgres().await;
    let (store, peer) = (open_versions_of(&database).await, open_versions_of(&database).await);
    assert!(!store.is_announced(), "nobody listens");
    let listening = store.clone();
    let _listening = Task::begin(async move { listening.listen().await });
    eventually("announcements to be heard", async || store.is_announced().then_some(())).await;
    store.announced().await;
    let before = store.revision().await.unwrap();
    peer.write("a", 0, &record_of(["sha256:1"]), &line("a")).await.unwrap();
    within("the announcement", store.announced()).await;
    assert_eq!(store.revision().await.unwrap(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_nobody_needs_leave_nothing() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (store, peer) = (open_versions_of(&database).await, open_versions_of(&database).await);
        let kept = component(&random_bytes(2_500_000, 1), None);
        let keeps = [&store, &peer, &store, &peer]
            .map(async |store| store.keep("echo", "sha256:a", &kept).await.unwrap());
        join_all(keeps).await;
        assert_eq!(blobs_and_chunks(&database).await, (1, 3), "those of one, whoever was first");
        store.keep("echo", "sha256:b", &kept).await.unwrap();
        assert_eq!(blobs_and_chunks(&database).await, (2, 6));
        store.write("echo", 0, &record_of(["sha256:b"]), &line("x")).await.unwrap();
        assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 1);
        assert_eq!(blobs_and_chunks(&database).await, (1, 3));
        assert!(store.component("echo", "sha256:b").await.unwrap() == Some(kept), "the other one's");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_that_is_dropped_half_way_is_not_there_and_is_swept_later() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        let kept = component(&random_bytes(3_500_000, 1), None);
        let mut keep = Box::pin(store.keep("echo", "sha256:a", &kept));
        // As a process does that is killed.
        let some_chunks = eventually("some chunks", async || {
            let is_whole = futures::poll!(&mut keep).is_ready();
            let (_, chunks) = blobs_and_chunks(&database).await;
            (is_whole || chunks > 0).then_some(chunks)
        });
        assert!((1..4).contains(&some_chunks.await));
        drop(keep);
        assert_eq!(store.component("echo", "sha256:a").await.unwrap(), None, "a part of it");
        assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 0);
        assert_eq!(blobs_and_chunks(&database).await.0, 1, "it may be on its way");
        database.execute(AN_HOUR_PASSES).await;
        store.keep("echo", "sha256:a", &kept).await.unwrap();
        assert_eq!(store.prune(Duration::from_secs(60)).await.unwrap(), 0);
        assert_eq!(blobs_and_chunks(&database).await, (1, 4), "what was dropped is gone");
        assert!(store.component("echo", "sha256:a").await.unwrap() == Some(kept));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_write_while_a_component_is_kept() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        let kept = component(&random_bytes(20 << 20, 1), None);
        let mut keep = Box::pin(store.keep("echo", "sha256:a", &kept));
        let mut writes = 0;
        loop {
            let (record, action) = (ComponentRecord::default(), line("x"));
            let write = Box::pin(store.write("echo", writes, &record, &action));
            match futures::future::select(keep, write).await {
                futures::future::Either::Left((done, write)) => {
                    done.unwrap();
                    write.await.unwrap();
                    break;
                }
                futures::future::Either::Right((written, going_on)) => {
                    keep = going_on;
                    writes = written.unwrap();
                }
            }
        }
        assert!(writes >= 5, "{writes} writes while twenty chunks were written");
    }
}

#[tokio::test]
async fn bytes_that_are_missing_are_said_to_be() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        let kept = component(&random_bytes(2_500_000, 1), None);
        for damage in [
            "DELETE FROM tool_blob_chunks WHERE number = 1",
            "UPDATE tool_blob_chunks SET bytes = (SELECT bytes FROM tool_blob_chunks WHERE number = 0)",
            "UPDATE tool_components SET bytes = 1000000000000",
            "UPDATE tool_components SET bytes = -1",
        ] {
            store.keep("echo", "sha256:a", &kept).await.unwrap();
            database.execute(damage).await;
            let error = store.component("echo", "sha256:a").await.unwrap_err();
            assert!(
                matches!(&error, VersionsError::Unreadable { name, .. } if name == "sha256:a"),
                "{error:?}"
            );
            store.prune(Duration::ZERO).await.unwrap();
        }
    }
}

#[tokio::test]
async fn damaged_bytes_are_replaced_and_signatures_stay() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        let kept = component(&random_bytes(2_500_000, 1), Some(b"signature"));
        store.keep("echo", "sha256:a", &kept).await.unwrap();
        database.execute("DELETE FROM tool_blob_chunks WHERE number = 1").await;
        store.keep("echo", "sha256:a", &kept).await.unwrap();
        assert!(store.component("echo", "sha256:a").await.is_err(), "what is there stays");
        store.replace("echo", "sha256:a", &component(&kept.bytes, None)).await.unwrap();
        assert!(store.component("echo", "sha256:a").await.unwrap() == Some(kept));
        // What it consisted of before goes like what was left half-written.
        database.execute(AN_HOUR_PASSES).await;
        database.execute(AN_HOUR_PASSES).await;
        store.keep("echo", "sha256:a", &component(b"", None)).await.unwrap();
        store.prune(Duration::from_mins(30)).await.unwrap();
        assert_eq!(blobs_and_chunks(&database).await, (1, 3));
    }
}

#[tokio::test]
async fn damaged_counts_and_audit_lines_are_not_taken_for_others() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        let mut counts = TrialCounts::default();
        counts.old.calls = 1;
        for id in ["t1", "t2"] {
            store.add_counts(id, &counts).await.unwrap();
        }
        for (expected, action) in [(0, "one"), (1, "two"), (2, "three")] {
            store.write("echo", expected, &ComponentRecord::default(), &line(action)).await.unwrap();
        }
        database.execute("UPDATE tool_trial_counts SET counts = '[' WHERE trial = 't1'").await;
        database.execute("UPDATE tool_audit SET line = '[' WHERE revision = 2").await;
        for counts in [&counts, &TrialCounts::default()] {
            let error = store.add_counts("t1", counts).await.unwrap_err();
            assert!(matches!(&error, VersionsError::Unreadable { name, .. } if name == "t1"), "{error:?}");
        }
        assert_eq!(store.add_counts("t2", &counts).await.unwrap().old.calls, 2);
        assert_eq!(store.audit("echo", 10).await.unwrap(), [line("three"), line("one")]);
    }
}

#[tokio::test]
async fn an_audit_trail_is_read_a_thousand_lines_at_most() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        database
            .execute(
                "WITH RECURSIVE numbers (number) AS \
                     (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 1005) \
                 INSERT INTO tool_audit (revision, name, line) \
                 SELECT number, 'echo', '{\"at\":' || number || ',\"by\":\"host\",\"action\":\"x\"}' FROM numbers",
            )
            .await;
        for most in [1000, 1001, u32::MAX] {
            let lines = store.audit("echo", most).await.unwrap();
            assert_eq!((lines.len(), lines[0].at, lines[999].at), (1000, 1005, 6));
        }
    }
}

#[tokio::test]
async fn a_database_that_is_away_or_frozen_is_unavailable_and_then_back() {
    let mut server = Postgres::start().await;
    let store = SqlToolVersions::new(migrated(SqlPool::postgres(&server.url()).unwrap()).await);
    store.write("echo", 0, &record_of(["sha256:a"]), &line("x")).await.unwrap();
    server.pause().await;
    check_unavailable(&store).await;
    server.resume().await;
    eventually("the store to work", async || store.revision().await.ok()).await;
    assert_eq!(store.write("echo", 1, &record_of(["sha256:a"]), &line("x")).await.unwrap(), 2);
    server.freeze();
    check_unavailable(&store).await;
    server.thaw();
    let revision = eventually("the store to work", async || store.revision().await.ok()).await;
    assert_eq!(revision, 2, "what was refused by a frozen server expected another revision");
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_not_waited_for_for_ever() {
    let database = Database::sqlite();
    let store = open_versions_of(&database).await;
    let record = ComponentRecord::default();
    store.write("echo", 0, &record, &line("x")).await.unwrap();
    store.keep("echo", "sha256:a", &component(b"1", None)).await.unwrap();
    let mut other = SqliteConnection::connect(&database.url()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    tokio::time::pause();
    let errors = [
        store.write("echo", 1, &record, &line("x")).await.unwrap_err(),
        store.keep("echo", "sha256:a", &component(b"1", None)).await.unwrap_err(),
    ];
    tokio::time::resume();
    for error in errors {
        assert!(
            matches!(&error, VersionsError::Unavailable(text) if text.contains("keeps it locked")),
            "{error:?}"
        );
    }
    assert_eq!(store.revision().await.unwrap(), 1, "reading goes on");
    assert_eq!(store.records().await.unwrap().components.len(), 1);
    assert_eq!(store.component("echo", "sha256:a").await.unwrap(), Some(component(b"1", None)));
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    eventually("the store to write", async || {
        store.keep("echo", "sha256:b", &component(b"1", None)).await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_write_that_is_dropped_half_way_is_done_or_not() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        for turns in 0..40 {
            let before = store.record("echo").await.unwrap().unwrap_or_default().revision;
            let record = record_of([format!("sha256:{turns}")]);
            let action = line("x");
            let mut write = Box::pin(store.write("echo", before, &record, &action));
            for _ in 0..turns {
                if futures::poll!(&mut write).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Whatever was begun has ended when the next one is told its revision.
        let before = store.record("echo").await.unwrap().unwrap_or_default().revision;
        let written = store.write("echo", before, &record_of(["sha256:last"]), &line("x")).await;
        let revision = match written {
            Ok(revision) => revision,
            Err(_conflict) => store.record("echo").await.unwrap().unwrap().revision,
        };
        assert_eq!(store.revision().await.unwrap(), revision);
        assert_eq!(store.audit("echo", 1000).await.unwrap().len() as u64, revision);
        assert_eq!(database.number("SELECT COUNT(*) FROM tool_record_digests").await, 1);
    }
}

#[tokio::test]
async fn a_signature_that_an_earlier_release_kept_is_read_until_its_name_has_one() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let store = open_versions_of(&database).await;
        store.keep("echo", "sha256:a", &component(b"1", None)).await.unwrap();
        let old = match &database {
            Database::Sqlite(_) => "UPDATE tool_components SET signature = CAST('old' AS BLOB)",
            Database::Postgres { .. } => "UPDATE tool_components SET signature = 'old'::bytea",
        };
        database.execute(old).await;
        assert_eq!(store.component("echo", "sha256:a").await.unwrap(), Some(component(b"1", Some(b"old"))));
        let new = component(b"1", Some(b"new"));
        store.keep("echo", "sha256:a", &new).await.unwrap();
        assert_eq!(store.component("echo", "sha256:a").await.unwrap(), Some(new));
    }
}

/// Rows in the tables of runs and jobs, as the program before versions of tools had them.
const OLD_DATA: &str = "\
    INSERT INTO run_events (run_id, sequence, writer, epoch, event) VALUES ('run_1', 0, '', 1, '{}'); \
    INSERT INTO run_records (run_id, request_id, started_at, finished_at, outcome) VALUES ('run_1', 'r', 1, 2, '{}'); \
    INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at, user_tier) \
        VALUES ('j', 'run_1', 'u1', '2 + 3', 'waiting', 1, 1, 'free')";

const COUNT_OLD_DATA: &str = "\
    SELECT (SELECT COUNT(*) FROM run_events WHERE epoch = 1) \
         + (SELECT COUNT(*) FROM run_records WHERE request_id = 'r') \
         + (SELECT COUNT(*) FROM jobs WHERE user_tier = 'free')";

/// The first migration that knows versions of tools.
const VERSIONS: i64 = 6;

#[tokio::test]
async fn a_database_of_the_program_before_gets_the_tables_and_keeps_its_data() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let migrated = match &database {
            Database::Sqlite(_) => {
                let mut connection =
                    SqliteConnection::connect(&(database.url() + "?mode=rwc")).await.unwrap();
                migrations_before(VERSIONS, "sqlite").run_direct(None, &mut connection, false).await
            }
            Database::Postgres { url, .. } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                migrations_before(VERSIONS, "postgres").run_direct(None, &mut connection, false).await
            }
        };
        migrated.unwrap();
        database.execute(OLD_DATA).await;
        let values = SqlKeyValues::new(database.pool());
        values.set(SPACE, "k", b"v", None).await.unwrap();
        assert_eq!(database.number(COUNT_OLD_DATA).await, 3);
        let (one, two) = futures::join!(open_versions_of(&database), open_versions_of(&database));
        assert_eq!(database.number(COUNT_OLD_DATA).await, 3);
        assert_eq!(values.get(SPACE, "k").await.unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(one.revision().await.unwrap(), 0);
        one.write("echo", 0, &record_of(["sha256:a"]), &line("x")).await.unwrap();
        two.keep("echo", "sha256:a", &component(b"1", None)).await.unwrap();
        assert_eq!(two.records().await.unwrap().revision, 1);
        assert_eq!(one.component("echo", "sha256:a").await.unwrap(), Some(component(b"1", None)));
    }
}
