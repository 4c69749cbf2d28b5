//! Jobs on Redis that have ended: what is removed, and what producers asked to keep.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::queue::QUEUE;
use agent_core::ports::{AttemptEnd, ClaimTime, DropStep, JobQueue as _, Leases, Renewal, Retention as _};
use agent_core::words::{CancelOutcome, JobData, JobQuery};
use boxed_async::boxed_async;
use redis::aio::MultiplexedConnection;
use redis_stores::bullmq::{BullQueue, BullRetention};
use redis_stores::redis::Redis as Store;
use serde_json::{Value, json};
use test_servers::{PATIENCE, Redis};
use uuid::Uuid;

use crate::bullmq::{claim_next, connect, official, schedule_hourly};
use crate::contract::queue::completed;
use crate::contract::retention::{Bench, DAY, Things, ended_before, ended_of};

mod retention {
    crate::contract::retention::test_all!(test_each(super::open));
}

async fn open() -> Bench {
    let server = Redis::start().await;
    let things = JobThings::open(&server).await;
    let open = || Arc::new(BullRetention::new(&queue(&server)));
    let (store, peer) = (open(), open());
    let leases: [Arc<dyn Leases>; 2] = [store.clone(), peer.clone()];
    Bench { store, peer, leases, things: Box::new(things), _guard: Box::new(server) }
}

async fn start() -> (Redis, JobThings, BullRetention) {
    let server = Redis::start().await;
    let jobs = JobThings::open(&server).await;
    let store = BullRetention::new(&jobs.queue);
    (server, jobs, store)
}

fn queue(server: &Redis) -> BullQueue {
    BullQueue::new(&Store::open(&server.url()).unwrap(), None)
}

/// Jobs on a queue, and that queue behind its back.
struct JobThings {
    queue: BullQueue,
    connection: MultiplexedConnection,
}

impl JobThings {
    async fn open(server: &Redis) -> Self {
        Self { queue: queue(server), connection: connect(server).await }
    }

    /// Ends the job that is claimed next, as long ago as that.
    async fn end(&self, end: &AttemptEnd, ago: Duration) -> String {
        let claim = self.queue.claim("w", PATIENCE).await.unwrap().expect("a job to claim");
        self.queue.settle(&claim, end).await.unwrap();
        let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - ago;
        for set in ["completed", "failed"] {
            let mut zadd = redis::cmd("ZADD");
            zadd.arg(format!("bull:{QUEUE}:{set}")).arg("XX");
            zadd.arg(u64::try_from(ended.as_millis()).unwrap()).arg(&claim.job_id);
            let _: i64 = zadd.query_async(&mut self.connection.clone()).await.unwrap();
        }
        claim.job_id
    }

    /// Changes what the producer of a job asked for.
    async fn ask(&self, id: &str, option: &str, value: &Value) {
        let key = format!("bull:{QUEUE}:{id}");
        let mut connection = self.connection.clone();
        let stored: String =
            redis::cmd("HGET").arg(&key).arg("opts").query_async(&mut connection).await.unwrap();
        let mut options: Value = serde_json::from_str(&stored).unwrap();
        options[option] = value.clone();
        let options = options.to_string();
        let _: i64 =
            redis::cmd("HSET").arg(&key).arg("opts").arg(options).query_async(&mut connection).await.unwrap();
    }

    async fn keys(&self, pattern: &str) -> Vec<String> {
        redis::cmd("KEYS").arg(pattern).query_async(&mut self.connection.clone()).await.unwrap()
    }
}

#[boxed_async]
impl Things for JobThings {
    async fn add_ended(&self, user: &str, ago: Duration) -> String {
        let id = self.queue.add(&JobData::new("q", user)).await.unwrap();
        // Some of them fail.
        let days = ago.as_secs() / DAY.as_secs();
        let end = if days.is_multiple_of(2) { completed("1") } else { failed() };
        assert_eq!(self.end(&end, ago).await, id);
        id
    }

    /// Held by a worker, so that it is not the next one to be claimed.
    async fn add_unended(&self, user: &str, _ago: Duration) -> String {
        let id = self.queue.add(&JobData::new("q", user)).await.unwrap();
        assert_eq!(self.queue.claim("w", PATIENCE).await.unwrap().unwrap().job_id, id);
        id
    }

    async fn is_kept(&self, id: &str) -> bool {
        self.queue.read(id).await.unwrap().is_some()
            || !self.keys(&format!("bull:{QUEUE}:{id}*")).await.is_empty()
    }
}

fn failed() -> AttemptEnd {
    AttemptEnd::Failed { error: "e".into(), retry: false }
}

async fn found(store: &BullRetention) -> Vec<String> {
    let before = store.now().await.unwrap() - 7 * DAY;
    ended_before(store, before, 2).await
}

#[tokio::test]
async fn what_a_producer_asked_to_keep_is_kept_and_what_nobody_asked_for_goes() {
    let (_server, jobs, store) = start().await;
    let mut to_go = Vec::new();
    for (option, asked, goes) in [
        ("removeOnComplete", Value::Null, true),
        // What older versions of ours asked for in every job.
        ("removeOnComplete", json!({ "age": 604_800, "count": 10_000 }), true),
        ("removeOnComplete", json!(false), false),
        ("removeOnComplete", json!({ "age": 31_536_000 }), false),
        ("removeOnComplete", json!({ "count": 100_000 }), false),
        ("removeOnComplete", json!(500), false),
        // What is asked for failed jobs is not about completed ones.
        ("removeOnFail", json!(false), true),
    ] {
        let id = jobs.queue.add(&JobData::new("q", "u1")).await.unwrap();
        jobs.ask(&id, option, &asked).await;
        assert_eq!(jobs.end(&completed("1"), 30 * DAY).await, id);
        if goes {
            to_go.push(id);
        }
    }
    let failed_and_kept = jobs.queue.add(&JobData::new("q", "u1")).await.unwrap();
    jobs.ask(&failed_and_kept, "removeOnFail", &json!(false)).await;
    jobs.end(&failed(), 30 * DAY).await;
    assert_eq!(found(&store).await, to_go);
    assert_eq!(store.remove(&to_go).await.unwrap(), to_go.len() as u64);
    assert_eq!(found(&store).await, [] as [&str; 0]);
    assert!(jobs.is_kept(&failed_and_kept).await);
}

/// BullMQ trims a whole set when a job ends with a bound.
#[tokio::test]
async fn the_end_of_a_job_of_ours_removes_nothing_that_others_asked_to_keep() {
    let server = Redis::start().await;
    let jobs = JobThings::open(&server).await;
    let theirs = jobs.queue.add(&JobData::new("q", "u1")).await.unwrap();
    jobs.ask(&theirs, "removeOnComplete", &json!(false)).await;
    jobs.end(&completed("1"), 3650 * DAY).await;
    // Ours, as this version adds it and as older versions did.
    for old in [false, true] {
        let id = jobs.queue.add(&JobData::new("q", "u1")).await.unwrap();
        if old {
            jobs.ask(&id, "removeOnComplete", &json!({ "age": 604_800, "count": 10_000 })).await;
        }
        jobs.end(&completed("1"), Duration::ZERO).await;
        assert!(jobs.is_kept(&theirs).await, "{old}");
    }
}

#[tokio::test]
async fn a_job_that_was_retried_meanwhile_stays() {
    let (server, jobs, store) = start().await;
    let id = jobs.add_ended("u1", 9 * DAY).await;
    assert_eq!(found(&store).await, std::slice::from_ref(&id));
    // As Bull Board retries a job.
    let board = official(&server).await;
    let mut job = board.get_job(&id).await.unwrap().unwrap();
    job.retry("failed", None).await.unwrap();
    assert_eq!(store.remove(std::slice::from_ref(&id)).await.unwrap(), 0);
    assert_eq!(jobs.end(&completed("1"), Duration::ZERO).await, id, "it is worked off");
}

/// More than are removed side by side, of two users, and one that has not ended.
#[tokio::test]
async fn many_jobs_are_removed_with_one_call_and_each_is_counted() {
    let (_server, things, store) = start().await;
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(things.add_ended(&format!("u{}", number % 2), 8 * DAY).await);
    }
    let held = things.add_unended("u0", DAY).await;
    ids.insert(20, held.clone());
    assert_eq!(store.remove(&ids).await.unwrap(), 40);
    assert_eq!(store.remove(&ids).await.unwrap(), 0);
    assert!(things.is_kept(&held).await);
    assert_eq!(
        things.keys(&format!("bull:{QUEUE}:1*")).await,
        [] as [&str; 0],
        "nothing is left of the others"
    );
}

#[tokio::test]
async fn nothing_is_left_of_a_user_who_is_forgotten() {
    let (_server, jobs, store) = start().await;
    let user = format!("user {}", Uuid::now_v7().simple());
    for (id, keeps) in [("1", false), ("2", true)] {
        assert_eq!(jobs.queue.add(&JobData::new("a secret", &*user)).await.unwrap(), id);
        if keeps {
            jobs.ask(id, "removeOnComplete", &json!(false)).await;
        }
        jobs.end(&completed("1"), Duration::ZERO).await;
    }
    let cancelled = jobs.queue.add(&JobData::new("a secret", &*user)).await.unwrap();
    assert_eq!(jobs.queue.cancel(&cancelled).await.unwrap(), CancelOutcome::Done);
    let ids: Vec<_> = ended_of(&store, &user).await.into_iter().collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert_eq!(store.remove(&ids).await.unwrap(), 3);
    let listed =
        jobs.queue.list(&JobQuery { user_id: &user, status: None, limit: 9, cursor: None }).await.unwrap();
    assert!(listed.jobs.is_empty());
    let keys = jobs.keys("*").await;
    let theirs = |key: &&String| {
        key.contains(&user) || key.contains("cancelled") || key.ends_with(&format!(":{}", ids[0]))
    };
    assert_eq!(keys.iter().filter(theirs).collect::<Vec<_>>(), [] as [&String; 0], "{keys:?}");
}

/// The list is kept from when a job was added, and the job from its end.
#[tokio::test]
async fn a_job_that_waited_for_long_is_listed_for_as_long_as_it_is_kept() {
    let server = Redis::start().await;
    let queue = BullQueue::new(&Store::open(&server.url()).unwrap(), Some(DAY));
    let id = queue.add(&JobData::new("q", "u")).await.unwrap();
    let added = (SystemTime::now() - DAY / 2).duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    assert_eq!(server.ask(&["HSET", &format!("bull:{QUEUE}:{id}"), "timestamp", &added]).await, "0");
    let list = format!("agent-host:{QUEUE}:user:u");
    assert_eq!(server.ask(&["EXPIRE", &list, "60"]).await, "1");
    claim_next(&queue).await;
    let kept: u64 = server.ask(&["TTL", &list]).await.parse().unwrap();
    assert!(kept > DAY.as_secs() / 2, "{kept}");
}

/// BullMQ's events hold results as well, and its stream keeps thousands of them, however old.
#[tokio::test]
async fn events_of_the_time_of_the_jobs_that_go_are_dropped() {
    let (server, things, store) = start().await;
    let events = format!("bull:{QUEUE}:events");
    let old = ["XADD", events.as_str(), "1000-1", "event", "completed", "jobId", "1", "returnvalue", "2"];
    assert_eq!(server.ask(&old).await, "1000-1");
    things.add_ended("u", Duration::ZERO).await;
    let length = async || server.ask(&["XLEN", &events]).await.parse::<u64>().unwrap();
    let all = length().await;
    let now = store.now().await.unwrap();
    assert_eq!(store.drop_partitions(now - 7 * DAY, None).await, Ok(DropStep::default()));
    assert_eq!(length().await, all - 1, "the old one is gone, and no other");
    assert_eq!(store.drop_partitions(now + DAY, None).await, Ok(DropStep::default()));
    assert_eq!(length().await, 0);
}

#[tokio::test]
async fn events_of_jobs_that_are_forgotten_are_erased_and_no_others() {
    let (_server, things, store) = start().await;
    let theirs = things.add_ended("u", Duration::ZERO).await;
    let other = things.add_ended("other", Duration::ZERO).await;
    let jobs = async || {
        let mut range = redis::cmd("XRANGE");
        range.arg(format!("bull:{QUEUE}:events")).arg("-").arg("+");
        let mut connection = things.connection.clone();
        let events: Vec<(String, HashMap<String, String>)> =
            range.query_async(&mut connection).await.unwrap();
        events.into_iter().filter_map(|(_, mut fields)| fields.remove("jobId")).collect::<BTreeSet<_>>()
    };
    assert_eq!(jobs().await, BTreeSet::from([theirs.clone(), other.clone()]));
    for _ in 0..2 {
        store.erase_traces(std::slice::from_ref(&theirs)).await.unwrap();
        assert_eq!(jobs().await, BTreeSet::from([other.clone()]));
    }
    assert_eq!(store.remove(&[theirs]).await.unwrap(), 1);
}

/// Nothing else makes room there.
#[tokio::test]
async fn a_redis_whose_memory_is_full_is_swept() {
    let (server, things, store) = start().await;
    let id = things.add_ended("u", 8 * DAY).await;
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await, "OK");
    assert!(server.ask(&["SET", "a", "b"]).await.starts_with("-OOM"));
    for time in [ClaimTime::WhenDue, ClaimTime::Now] {
        assert!(store.claim("jobs", "one", PATIENCE, time).await.unwrap(), "{time:?}");
        assert!(!store.claim("jobs", "other", PATIENCE, time).await.unwrap(), "{time:?}");
        assert_eq!(store.renew("jobs", "one", PATIENCE).await, Ok(Renewal::Held), "{time:?}");
        assert!(store.settle("jobs", "one", PATIENCE).await.unwrap(), "{time:?}");
    }
    assert_eq!(store.remove(&[id]).await.unwrap(), 1);
}

/// A job under way may last for longer than a lease, and somebody may want it to be cancelled.
#[tokio::test]
async fn jobs_under_way_are_renewed_cancelled_and_ended_while_the_memory_of_redis_is_full() {
    let server = Redis::start().await;
    let queue = queue(&server);
    for _ in 0..3 {
        queue.add(&JobData::new("q", "u")).await.unwrap();
    }
    let first = queue.claim("w", PATIENCE).await.unwrap().expect("a job to claim");
    let second = queue.claim("w", PATIENCE).await.unwrap().expect("another job to claim");
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await, "OK");
    queue.add(&JobData::new("q", "u")).await.unwrap_err();
    assert_eq!(queue.renew(&first).await, Ok(Renewal::Held));
    assert_eq!(queue.cancel(&second.job_id).await, Ok(CancelOutcome::Asked));
    assert_eq!(queue.renew(&second).await, Ok(Renewal::Cancelled));
    queue.settle(&second, &AttemptEnd::Cancelled).await.unwrap();
    let next = queue.settle_and_claim(&first, &completed("1"), "w").await.unwrap();
    assert!(next.is_some(), "a worker that ends a job goes on with the next one");
}

/// Nothing is added, and nothing that is there is held up.
#[tokio::test]
async fn jobs_are_claimed_and_taken_back_and_schedules_go_on_while_the_memory_of_redis_is_full() {
    let server = Redis::start().await;
    let queue = queue(&server);
    let stalled = queue.add(&JobData::new("q", "u")).await.unwrap();
    // The job's worker died: it is active, and nobody holds it.
    let list = |name: &str| format!("bull:{QUEUE}:{name}");
    assert_eq!(server.ask(&["LREM", &list("wait"), "1", &stalled]).await, "1");
    assert_eq!(server.ask(&["LPUSH", &list("active"), &stalled]).await, "1");
    schedule_hourly(&server).await;
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await, "OK");
    let (first, second) = (claim_next(&queue).await, claim_next(&queue).await);
    assert!([&first, &second].iter().any(|claim| claim.job_id == stalled), "{first:?} {second:?}");
    assert_eq!(queue.depth().await.unwrap().delayed, 1, "the next iteration");
}

#[tokio::test]
async fn a_redis_that_is_gone_fails_a_sweep() {
    let mut server = Redis::start().await;
    let store = BullRetention::new(&queue(&server));
    server.pause().await;
    store.now().await.unwrap_err();
    store.claim("jobs", "one", DAY, ClaimTime::Now).await.unwrap_err();
    server.resume().await;
    test_servers::eventually("Redis to be asked again", async || store.now().await.ok()).await;
}
