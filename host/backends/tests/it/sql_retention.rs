//! What has ended in the database: jobs, runs with their recordings, the audit trail of tools, and the room
//! that they took.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::{
    HttpRecording, HttpRecordings as _, JobQueue as _, Leases, RetainedKind, Retention as _, RunStore as _,
    ToolVersions as _,
};
use agent_core::words::{AuditLine, ComponentRecord, ConversationKey, RunOutcome, RunRecord};
use backends::sql::{SqlHttpRecordings, SqlLeases, SqlQueue, SqlRetention, SqlToolVersions};
use boxed_async::boxed_async;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::contract::retention::{Bench, DAY, RunThings, Things};
use crate::contract::runs::some_record;
use crate::sql::{Database, migrated, open_runs_of};

pub(crate) async fn open_runs(database: Database) -> Bench {
    let (runs, writing) = open_runs_of(&database).await;
    let [store, peer] = [(); 2].map(|()| Arc::new(SqlRetention::new(database.pool(), RetainedKind::Runs)));
    let (leases, things) = (open_leases(&database), Box::new(RunThings(runs)));
    Bench { store, peer, leases, things, _guard: Box::new((writing, database)) }
}

pub(crate) async fn open_jobs(database: Database) -> Bench {
    let (queue, _adding) = SqlQueue::new(migrated(database.pool()).await);
    let [store, peer] = [(); 2].map(|()| Arc::new(SqlRetention::new(database.pool(), RetainedKind::Jobs)));
    let database = Arc::new(database);
    let things = Box::new(JobThings { queue, database: database.clone() });
    Bench { store, peer, leases: open_leases(&database), things, _guard: Box::new(database) }
}

pub(crate) async fn open_conversations(database: Database) -> Bench {
    let (database, kind) = (Arc::new(database), RetainedKind::Conversations);
    let [store, peer] = database.replicas().await.map(|pool| Arc::new(SqlRetention::new(pool, kind)));
    let things = Box::new(ConversationThings(database.clone()));
    Bench { store, peer, leases: open_leases(&database), things, _guard: Box::new(database) }
}

fn open_leases(database: &Database) -> [Arc<dyn Leases>; 2] {
    [(); 2].map(|()| Arc::new(SqlLeases::new(database.pool())) as _)
}

/// Conversations of another time.
struct ConversationThings(Arc<Database>);

impl ConversationThings {
    async fn insert(&self, user: &str, ago: Duration, leased_until: u64) -> String {
        let ms = ms(SystemTime::now() - ago);
        let id = Uuid::now_v7().simple().to_string();
        let key = ConversationKey::conversation(user, &id).digest();
        let insert = AssertSqlSafe(format!(
            "INSERT INTO conversations (key, kind, user_id, id, turns, leased_until, created_at, updated_at) \
             VALUES ('{key}', 'conversation', '{user}', '{id}', 1, {leased_until}, {ms}, {ms})"
        ));
        self.0.execute(insert).await;
        key
    }
}

#[boxed_async]
impl Things for ConversationThings {
    async fn add_ended(&self, user: &str, ago: Duration) -> String {
        self.insert(user, ago, 0).await
    }

    async fn add_unended(&self, user: &str, ago: Duration) -> String {
        self.insert(user, ago, 1 << 52).await
    }

    async fn add_waiting(&self, user: &str) -> Vec<String> {
        vec![self.insert(user, Duration::ZERO, 1 << 52).await]
    }

    async fn is_kept(&self, key: &str) -> bool {
        let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM conversations WHERE key = '{key}'"));
        self.0.number(count).await > 0
    }
}

/// Jobs of another time, which the queue itself does not add.
struct JobThings {
    queue: SqlQueue,
    database: Arc<Database>,
}

impl JobThings {
    async fn insert(&self, user: &str, ago: Duration, status: &str) -> String {
        let ms = ms(SystemTime::now() - ago);
        let id = format!("{ms:012x}{}", &Uuid::now_v7().simple().to_string()[12..]);
        let has_ended = ["completed", "failed", "cancelled"].contains(&status);
        let finished = if has_ended { ms.to_string() } else { "NULL".to_owned() };
        let insert = AssertSqlSafe(format!(
            "INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at, finished_at) \
             VALUES ('{id}', 'run_{id}', '{user}', 'q', '{status}', {ms}, {ms}, {finished})"
        ));
        self.database.execute(insert).await;
        id
    }
}

#[boxed_async]
impl Things for JobThings {
    async fn add_ended(&self, user: &str, ago: Duration) -> String {
        let statuses = ["completed", "failed", "cancelled"];
        let status = statuses[usize::try_from(ago.as_secs() / DAY.as_secs()).unwrap() % 3];
        self.insert(user, ago, status).await
    }

    async fn add_unended(&self, user: &str, ago: Duration) -> String {
        self.insert(user, ago, "waiting").await
    }

    async fn add_waiting(&self, user: &str) -> Vec<String> {
        vec![self.insert(user, 99 * DAY, "parked").await, self.insert(user, 99 * DAY, "active").await]
    }

    async fn is_kept(&self, id: &str) -> bool {
        self.queue.read(id).await.unwrap().is_some()
    }
}

pub(crate) fn ms(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn a_job_that_was_added_long_ago_and_ended_lately_stays() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let bench = open_jobs(database).await;
        let old = bench.things.add_ended("u1", 9 * DAY).await;
        let before = SystemTime::now() - 9 * DAY - DAY / 2;
        let page = bench.store.ended_before(before, None, 10).await.unwrap();
        assert!(page.items.is_empty(), "{old} ended later");
    }
}

#[tokio::test]
async fn recordings_go_with_their_runs_and_alone() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let recordings = SqlHttpRecordings::new(database.pool());
        let bench = open_runs(database).await;
        let one = HttpRecording { call_id: "c".into(), exchange: b"{}".to_vec() };
        let (old, unended) =
            (bench.things.add_ended("u1", 9 * DAY).await, bench.things.add_unended("u1", 9 * DAY).await);
        for id in [&old, &unended] {
            assert_eq!(recordings.append(id, &[one.clone(), one.clone()]).await.unwrap(), 2);
        }
        assert_eq!(bench.store.remove(std::slice::from_ref(&old)).await.unwrap(), 1);
        assert_eq!(recordings.read(&old).await.unwrap(), []);
        assert_eq!(recordings.read(&unended).await.unwrap().len(), 2);
        recordings.remove(&[unended.clone(), "run_none".into()]).await.unwrap();
        assert_eq!(recordings.read(&unended).await.unwrap(), []);
    }
}

#[tokio::test]
async fn lines_of_the_audit_trail_go_by_when_they_were_written() {
    for database in [Database::sqlite(), Database::postgres().await] {
        database.pool().migrate().await.unwrap();
        let versions = SqlToolVersions::new(database.pool());
        let now = SystemTime::now();
        for (revision, days) in [(0, 40), (1, 35), (2, 20), (3, 0)] {
            let line = AuditLine {
                at: ms(now - days * DAY),
                by: "user:ann".into(),
                action: format!("{days}"),
                digest: None,
                detail: String::new(),
            };
            versions.write("calc", revision, &ComponentRecord::default(), &line).await.unwrap();
        }
        let store = SqlRetention::new(database.pool(), RetainedKind::ToolAudit);
        assert_eq!(store.end_of_newest(5).await.unwrap(), None);
        let oldest = async || store.oldest().await.unwrap().unwrap();
        assert_eq!(ms(oldest().await), ms(now - 40 * DAY));
        let mut from = None;
        loop {
            let page = store.ended_before(now - 30 * DAY, from.as_deref(), 1).await.unwrap();
            let ids: Vec<_> = page.items.into_iter().map(|item| item.id).collect();
            assert_eq!(store.remove(&ids).await.unwrap(), ids.len() as u64);
            let Some(next) = page.next else { break };
            from = Some(next);
        }
        let left = versions.audit("calc", 10).await.unwrap();
        assert_eq!(left.iter().map(|line| &*line.action).collect::<Vec<_>>(), ["0", "20"]);
        assert_eq!(ms(oldest().await), ms(now - 20 * DAY));
        assert!(store.ended_of("ann", None, 10).await.unwrap().items.is_empty(), "it is the operator's");
    }
}

/// Journals and results may be large, and a database has a time to answer: what was removed stays so when
/// that is over.
#[tokio::test]
async fn runs_and_jobs_are_removed_some_at_a_time() {
    let run = "INSERT INTO run_records (run_id, request_id, started_at, finished_at, outcome) \
        VALUES ('ID', 'r', 1, 1, '{}')";
    let job = "INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at, finished_at) \
        VALUES ('ID', 'r', 'u', 'q', 'completed', 1, 1, 1)";
    for (kind, table, key, insert) in
        [(RetainedKind::Runs, "run_records", "run_id", run), (RetainedKind::Jobs, "jobs", "id", job)]
    {
        let database = Database::sqlite();
        let store = SqlRetention::new(migrated(database.pool()).await, kind);
        let ids: Vec<String> = (10..60).map(|number| number.to_string()).collect();
        for id in &ids {
            database.execute(AssertSqlSafe(insert.replace("ID", id))).await;
        }
        let refuse = format!(
            "CREATE TRIGGER refuse BEFORE DELETE ON {table} WHEN OLD.{key} = '59' \
             BEGIN SELECT RAISE(ABORT, 'it is not to go'); END"
        );
        database.execute(AssertSqlSafe(refuse)).await;
        store.remove(&ids).await.unwrap_err();
        let left = database.number(AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"))).await;
        assert!((1..50).contains(&left), "{left} of 50 are left");
        database.execute("DROP TRIGGER refuse").await;
        assert_eq!(i64::try_from(store.remove(&ids).await.unwrap()), Ok(left));
    }
}

#[tokio::test]
async fn old_webhooks_and_keys_go_although_no_new_ones_come() {
    let database = Database::sqlite();
    let pool = migrated(database.pool()).await;
    let insert = "INSERT INTO webhooks (job_id, user_id, url, state, due_at, created_at) \
            VALUES ('old', 'u', '', 'delivered', NULL, 1), ('due', 'u', '', 'waiting', 1, 1), \
                ('new', 'u', '', 'delivered', NULL, 9000000000000); \
        INSERT INTO idempotency_keys (caller, key, request, claim, owner, leased_until, expires_at) \
            VALUES ('c', 'old', 'r', 'o', '', 0, 1), ('c', 'new', 'r', 'o', '', 0, 9000000000000)";
    database.execute(insert).await;
    let store = SqlRetention::new(pool, RetainedKind::ToolAudit);
    assert!(!store.remove_expired().await.unwrap(), "there are no more");
    assert_eq!(database.number("SELECT COUNT(*) FROM webhooks WHERE job_id <> 'old'").await, 2);
    assert_eq!(database.number("SELECT COUNT(*) FROM webhooks").await, 2);
    assert_eq!(database.number("SELECT COUNT(*) FROM idempotency_keys").await, 1);
}

#[tokio::test]
async fn a_new_sqlite_file_gives_the_room_of_what_was_removed_back_and_an_old_one_goes_on() {
    for is_new in [true, false] {
        let database = Database::sqlite();
        if !is_new {
            // As versions before this one made it.
            database.execute("PRAGMA journal_mode = WAL; CREATE TABLE there_before (id INTEGER)").await;
        }
        let (runs, _writing) = open_runs_of(&database).await;
        let event = agent_core::words::Event::from(agent_core::testing::says(&"x".repeat(100_000)));
        let events = vec![event; 100];
        agent_core::ports::Journal::append(&*runs, "run_1", agent_core::ports::Epoch(1), 0, &events)
            .await
            .unwrap();
        let record = crate::contract::runs::some_record("run_1");
        runs.save(&record).await.unwrap();
        let store = SqlRetention::new(database.pool(), RetainedKind::Runs);
        let pages = async || database.number("PRAGMA page_count").await;
        let full = pages().await;
        assert_eq!(store.remove(&["run_1".to_owned()]).await.unwrap(), 1);
        let mut turns = 0;
        while store.give_back_room().await.unwrap() {
            turns += 1;
            assert!(turns < 100, "it does not end");
        }
        let left = pages().await;
        if is_new {
            assert!(turns > 0 && left * 10 < full, "{left} of {full} pages in {turns} turns");
        } else {
            assert_eq!((turns, left), (0, full), "its pages are used again");
        }
    }
}

#[tokio::test]
async fn a_database_that_is_gone_fails_a_sweep_without_a_secret() {
    let pool = backends::sql::SqlPool::postgres("postgres://user:hunter2@127.0.0.1:1/db").unwrap();
    let store = SqlRetention::new(pool, RetainedKind::Runs);
    let error = store.now().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

/// Nor does a sweep touch it: its last heartbeat is not old.
#[tokio::test]
async fn a_run_that_is_streamed_is_forgotten_with_its_user_only_when_its_owner_is_dead() {
    let database = Database::sqlite();
    let (runs, _writing) = open_runs_of(&database).await;
    let retention = SqlRetention::new(database.pool(), RetainedKind::Runs);
    let beats = async |ago: Duration| {
        let record = RunRecord {
            finished_at: SystemTime::now() - ago,
            outcome: RunOutcome::Running,
            ..some_record("run_1")
        };
        runs.save(&record).await.unwrap();
        retention.ended_of("u1", None, 10).await.unwrap().items.len()
    };
    assert_eq!((beats(Duration::from_secs(120)).await, beats(Duration::from_secs(2)).await), (1, 0));
}
