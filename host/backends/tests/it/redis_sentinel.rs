//! Redis behind sentinels: which server is used, and what becomes of jobs when another one is promoted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::queue::stalled_after;
use agent_core::ports::{JobQueue as _, Probe as _, ResultCache as _, StoreCheck as _, StoreCheckError};
use agent_core::words::{JobData, JobStatus};
use redis_stores::bullmq::BullQueue;
use redis_stores::redis::{Redis, RedisCache, RedisCheck, RedisProbe, RedisUse};
use test_servers::{Sentinels, Task, eventually};
use tokio::time::{Instant, sleep};

use crate::bullmq::{LEASE, claim_next, completed, data};
use crate::contract::cache::result;

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than sentinels take that miss a master after a second, on a busy machine.
const FAILOVER: Duration = Duration::from_secs(30);

async fn start() -> (test_servers::Redis, test_servers::Redis, Sentinels) {
    let master = test_servers::Redis::start().await;
    let replica = test_servers::Redis::start_replica_of(&master).await;
    let sentinels = Sentinels::over(&master, 1).await;
    (master, replica, sentinels)
}

#[tokio::test]
async fn it_is_said_once_that_no_sentinel_answers() {
    let redis = Redis::open("redis+sentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/main").unwrap();
    let error = RedisProbe(redis).check().await.unwrap_err();
    let expected = "the connection to Redis failed: none of the sentinels answers: connection refused";
    assert_eq!(error.0, expected);
}

/// Jobs are added and worked off while the master is killed. What was acknowledged had reached the replica
/// (`WAIT`), so that all of it is there; each ends, and what had ended is not claimed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_under_load_loses_nothing_that_was_replicated() {
    let (mut master, replica, sentinels) = start().await;
    let url = sentinels.url();
    let queue = Arc::new(BullQueue::open_with_lease(&url, LEASE).unwrap());
    let (mut replicated, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..40 {
        replicated.insert(queue.add(&data(&number.to_string())).await.unwrap());
    }
    for _ in 0..10 {
        let claim = claim_next(&queue).await;
        queue.settle(&claim, &completed("1")).await.unwrap();
        ended.insert(claim.job_id);
    }
    assert_eq!(replicated.len(), 40);
    replicate(&master).await;

    let adding = Task::begin(add_on(queue.clone()));
    let held = claim_next(&queue).await;
    replicate(&master).await;
    master.pause().await;
    let killed = Instant::now();
    let after = adding.ended().await;
    assert!(killed.elapsed() < FAILOVER, "{:?}", killed.elapsed());
    sentinels.agree_on(&replica).await;

    // The worker of a claim that the replica has goes on with it.
    queue.settle(&held, &completed("1")).await.unwrap();
    ended.insert(held.job_id);
    let mut again = BTreeSet::new();
    while let Some(claim) = queue.claim("worker", stalled_after(LEASE) + LEASE).await.unwrap() {
        queue.settle(&claim, &completed("1")).await.unwrap();
        assert!(!ended.contains(&claim.job_id), "{} had ended", claim.job_id);
        assert!(again.insert(claim.job_id.clone()), "{} is worked off twice", claim.job_id);
    }
    for id in replicated.iter().chain([&after]) {
        let job = queue.read(id).await.unwrap().expect("it was replicated, or added to the new master");
        assert_eq!(job.status, JobStatus::Completed, "{id}");
    }
}

/// Adds jobs until the master is gone, and then until one is accepted again.
async fn add_on(queue: Arc<BullQueue>) -> String {
    while queue.add(&data("while the master lives")).await.is_ok() {
        sleep(Duration::from_millis(2)).await;
    }
    loop {
        if let Ok(id) = queue.add(&JobData::new("after", "u2")).await {
            return id;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the replica has all that the master has acknowledged by now.
async fn replicate(master: &test_servers::Redis) {
    let acknowledged = offsets(master).await.expect("a replica").0;
    eventually("the replica to be in step", async || {
        offsets(master).await.filter(|(_, replica)| *replica >= acknowledged).map(drop)
    })
    .await;
}

/// How far the master is, and how far its replica has said to be.
async fn offsets(master: &test_servers::Redis) -> Option<(u64, u64)> {
    let info = master.ask(&["INFO", "replication"]).await;
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
    let replica = field("slave0:")?.split(',').find_map(|part| part.strip_prefix("offset="));
    Some((field("master_repl_offset:")?.parse().ok()?, replica?.parse().ok()?))
}

/// The replica misses the last of what the master acknowledges, and is then promoted. That is lost and
/// nothing else: what was there before is worked off once. BullMQ counts on from what the replica has, so the
/// lost id is given again; whose job it is now stands in the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_that_lost_the_last_second_has_everything_else() {
    let (mut master, replica, sentinels) = start().await;
    let queue = BullQueue::open_with_lease(&sentinels.url(), LEASE).unwrap();
    let kept = queue.add(&data("kept")).await.unwrap();
    let done = queue.add(&data("done")).await.unwrap();
    replicate(&master).await;
    // The replica is sent away and cannot come back.
    assert_eq!(master.ask(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await, "OK");
    assert_eq!(master.ask(&["CLIENT", "KILL", "TYPE", "replica"]).await, "1");
    let lost = queue.add(&data("lost")).await.unwrap();
    let claim = claim_next(&queue).await;
    assert_eq!(claim.job_id, kept);
    queue.settle(&claim, &completed("1")).await.unwrap();
    master.pause().await;
    sentinels.agree_on(&replica).await;

    let next = JobData::new("next", "u2");
    let next = eventually("jobs to be accepted again", async || queue.add(&next).await.ok()).await;
    // The end of the job is lost too: it is run again, under the id of the same run, whose record says that
    // it has ended.
    let again = claim_next(&queue).await;
    assert_eq!((&again.job_id, &again.run_id), (&kept, &claim.run_id));
    queue.settle(&again, &completed("1")).await.unwrap();
    let mut left = Vec::new();
    while let Some(claim) = queue.claim("worker", Duration::ZERO).await.unwrap() {
        queue.settle(&claim, &completed("1")).await.unwrap();
        left.push(claim.job_id);
    }
    assert_eq!(left, [done, next.clone()]);
    assert_eq!(
        (lost == next).then_some("u2"),
        queue.read(&lost).await.unwrap().as_ref().map(|job| &*job.user_id)
    );
}

#[tokio::test]
async fn a_master_that_was_demoted_is_left_and_its_replicas_are_checked() {
    let (master, replica, sentinels) = start().await;
    let redis = Redis::open(&sentinels.url()).unwrap();
    let cache = RedisCache::new(redis.clone());
    cache.put("agent:1", result("1"), HOUR).await.unwrap();
    let named = RedisCheck::new(Redis::open(&replica.url()).unwrap(), RedisUse::Queue).check().await.unwrap();
    assert_eq!(named.iter().map(|warning| warning.setting).collect::<Vec<_>>(), ["role"]);
    let check = RedisCheck::new(Redis::open(&sentinels.url()).unwrap(), RedisUse::Queue);
    assert_eq!(check.check().await, Ok(vec![]));
    replica.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let Err(StoreCheckError::Unfit { problem }) = check.check().await else { panic!("it is used") };
    assert!(problem.contains("allkeys-lru"), "{problem}");

    // As an operator does it: the master lives on as a replica.
    eventually("the sentinels to begin a failover", async || {
        (sentinels.ask(&["SENTINEL", "FAILOVER", "main"]).await == "OK").then_some(())
    })
    .await;
    sentinels.agree_on(&replica).await;
    eventually("the old master to be a replica", async || {
        master.ask(&["INFO", "replication"]).await.contains("role:slave").then_some(())
    })
    .await;
    eventually("writes to reach the new master", async || cache.put("agent:2", result("2"), HOUR).await.ok())
        .await;
    assert_eq!(replica.ask(&["EXISTS", "agent:2"]).await, "1");
}
