//! A Redis cluster of three masters: the suites of all that lies there, the queue in one shard and in
//! several, slots that move and a master that dies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{
    ChangedJobs, JobQueue as _, Probe as _, RateWindows as _, ResultCache as _, Retention as _,
    StoreCheck as _, StoreCheckError, Window, WindowKind,
};
use agent_core::words::{JobQuery, JobStatus};
use redis_stores::bullmq::{BullQueue, BullRetention};
use redis_stores::redis::{Redis, RedisCache, RedisCheck, RedisProbe, RedisUse, RedisWindows};
use test_servers::{RedisCluster, eventually, within};

use crate::bullmq::{LEASE, completed, data};
use crate::contract::cache::result;
use crate::contract::queue;
use crate::contract::retention::ended_before;

crate::redis::suites_in_turn!(
    test_servers::RedisCluster,
    crate::redis_cluster::start,
    crate::redis_cluster::open
);

mod one_shard {
    crate::contract::queue::test_all!(test_in_turn(super::start, super::open_one_shard));
}

/// Without what is promised of the order of jobs: each shard has one of its own.
mod several_shards {
    crate::contract::test_in_turn! { queue, (super::start, super::open_shards):
        a_job_is_read_as_it_was_added,
        a_job_names_the_run_of_its_attempts,
        an_unknown_job_is_none,
        a_user_sees_only_their_own_jobs,
        a_foreign_cursor_is_refused,
        depth_counts_what_has_not_ended,
        depth_says_how_long_the_oldest_has_waited,
        an_empty_queue_gives_nothing,
        whoever_waits_gets_what_is_added,
        whoever_waits_gets_what_another_process_adds,
        each_job_is_claimed_by_one_of_many,
        one_that_stops_waiting_leases_nothing,
        a_claim_names_who_submitted_the_job,
        a_job_under_a_chosen_id_is_added_once,
        a_completed_job_has_its_result,
        a_job_that_failed_for_good_can_be_tried_again,
        an_attempt_ends_once,
        a_waiting_job_is_cancelled_at_once,
        a_delayed_job_is_cancelled_at_once,
        whoever_works_on_a_job_is_asked_to_stop,
        a_cancelled_job_is_not_handed_to_anybody_else,
        a_result_that_came_before_the_stop_is_kept,
        a_cancel_request_outlives_the_worker,
        a_cancelled_job_does_not_come_back_when_it_is_added_again,
        a_lease_lasts_as_long_as_it_is_renewed,
        a_job_of_a_dead_worker_goes_to_another,
        a_lease_that_is_not_renewed_ends_and_its_holder_has_lost_it,
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const SHARDS: usize = 3;

async fn start() -> Option<RedisCluster> {
    Some(RedisCluster::start().await)
}

async fn open(cluster: &RedisCluster) -> Redis {
    cluster.empty().await;
    Redis::open(&cluster.url()).unwrap()
}

async fn open_one_shard(cluster: &RedisCluster) -> queue::Bench {
    open_queue(cluster, 1).await
}

async fn open_shards(cluster: &RedisCluster) -> queue::Bench {
    open_queue(cluster, SHARDS).await
}

async fn open_queue(cluster: &RedisCluster, shards: usize) -> queue::Bench {
    cluster.empty().await;
    let open = || Arc::new(BullQueue::open_shards_with_lease(&cluster.url(), shards, LEASE).unwrap());
    let (queue, peer) = (open(), open());
    // Some cases poll a claim once and leave it. What it would ask the nodes first, who has which slots, is
    // known then.
    for queue in [&queue, &peer] {
        queue.depth().await.unwrap();
    }
    queue::Bench { queue, peer, lease: LEASE, _guard: Box::new(()) }
}

/// A queue of several shards with nine jobs, as two processes have it, and the ids of the jobs.
async fn open_with_jobs(cluster: &RedisCluster) -> (BullQueue, BullQueue, BTreeSet<String>) {
    let open = || BullQueue::open_shards_with_lease(&cluster.url(), SHARDS, LEASE).unwrap();
    let (queue, peer) = (open(), open());
    let mut ids = BTreeSet::new();
    for number in 0..9 {
        ids.insert(queue.add(&data(&number.to_string())).await.unwrap());
    }
    (queue, peer, ids)
}

fn shard_of(id: &str) -> &str {
    id.split_once('-').map(|(shard, _)| shard).expect("it names its shard")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_all_shards_are_listed_together_and_found_under_their_ids() {
    let cluster = RedisCluster::start().await;
    let (_queue, peer, ids) = open_with_jobs(&cluster).await;
    for shard in ["0", "1", "2"] {
        assert_eq!(ids.iter().filter(|id| shard_of(id) == shard).count(), 3, "{ids:?}");
    }
    let (mut listed, mut cursor) = (BTreeSet::new(), None::<String>);
    loop {
        let wanted = JobQuery { user_id: "u1", status: None, limit: 2, cursor: cursor.as_deref() };
        let page = peer.list(&wanted).await.unwrap();
        assert!(page.jobs.len() <= 2);
        assert!(page.jobs.is_sorted_by(|one, other| one.created_at >= other.created_at));
        for job in page.jobs {
            assert_eq!(peer.read(&job.id).await.unwrap().expect("it is listed").run_id, job.run_id);
            assert!(listed.insert(job.id), "it is listed twice");
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids);
}

/// A worker that never stops working is given jobs of every shard; their ends are told; and those that are
/// kept too long are found in each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_all_shards_are_worked_off_told_of_and_removed() {
    let cluster = RedisCluster::start().await;
    let (queue, peer, _ids) = open_with_jobs(&cluster).await;
    let mut changes = peer.changes(None).await.unwrap().expect("Redis tells");
    let (mut shards, mut ended) = (Vec::new(), BTreeSet::new());
    for _ in 0..6 {
        let claim = queue.claim("worker", Duration::ZERO).await.unwrap().expect("a job");
        shards.push(shard_of(&claim.job_id).to_owned());
        assert_eq!(queue.settle_and_claim(&claim, &completed("1"), "worker").await.unwrap(), None);
        ended.insert(claim.job_id);
    }
    let distinct = |shards: &[String]| shards.iter().collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(&shards[..3]), distinct(&shards[3..])), (3, 3), "{shards:?}");
    let mut told = BTreeSet::new();
    within("the ends to be told", async {
        while told != ended {
            changes = peer.changes(Some(&changes.cursor)).await.unwrap().expect("Redis tells");
            if let ChangedJobs::These(ids) = &changes.jobs {
                told.extend(ids.iter().cloned());
            }
        }
    })
    .await;

    let retention = BullRetention::new(&peer);
    let found = ended_before(&retention, SystemTime::now() + HOUR, 1).await;
    assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), ended);
    assert_eq!(retention.remove(&found).await.unwrap(), 6);
    assert!(peer.read(&found[0]).await.unwrap().is_none());
    assert_eq!(peer.depth().await.unwrap().waiting, 3);
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_and_every_node_is_checked() {
    let cluster = RedisCluster::start().await;
    let redis = Redis::open(&cluster.url()).unwrap();
    let windows = RedisWindows::new(redis.clone());
    let window = Window { kind: WindowKind::Address, key: "ip:192.0.2.1", limit: 10, period: HOUR, cost: 1 };
    assert_eq!(windows.hit(&[window]).await.unwrap()[0].count, 1);
    let slot = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", "rl:ip:192.0.2.1"]).await;
    cluster.empty().await;
    for to in [0, 1, 2] {
        cluster.move_slot(slot.parse().unwrap(), to).await;
        // The nodes may disagree for a moment. A hit that is turned away is not counted.
        let hits = eventually("the slot to be found", async || windows.hit(&[window]).await.ok()).await;
        assert_eq!(hits[0].count, 1, "moved to {to}");
        cluster.empty().await;
    }
    let one_node = Redis::open(&cluster.nodes()[0].url()).unwrap();
    let Err(StoreCheckError::Unfit { problem }) = RedisCheck::new(one_node, RedisUse::Queue).check().await
    else {
        panic!("a node is used as if it were all of the cluster")
    };
    assert!(problem.contains("redis+cluster://"), "{problem}");
    let check = RedisCheck::new(redis, RedisUse::Queue);
    assert_eq!(check.check().await, Ok(vec![]));
    cluster.nodes()[2].ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    assert!(matches!(check.check().await, Err(StoreCheckError::Unfit { .. })));
}

/// When the replica of a dead master has taken its place, everything works again by itself, and what was
/// replicated is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_takes_its_slots_with_it_only_until_its_replica_has_them() {
    let mut cluster = RedisCluster::start_with_replica().await;
    let redis = Redis::open(&cluster.url()).unwrap();
    let (probe, cache) = (RedisProbe(redis.clone()), RedisCache::new(redis));
    let (queue, _peer, ids) = open_with_jobs(&cluster).await;
    for number in 0..30 {
        cache.put(&format!("agent:{number}"), result("1"), HOUR).await.unwrap();
    }
    probe.check().await.unwrap();
    eventually("the replica to be in step", async || {
        let info = cluster.nodes()[0].ask(&["INFO", "replication"]).await;
        let field =
            |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::to_owned);
        let offset = field("master_repl_offset:")?;
        field("slave0:")?.contains(&format!("offset={offset},")).then_some(())
    })
    .await;
    cluster.pause_the_first().await;
    eventually("the probe to pass again", async || probe.check().await.ok()).await;
    for number in 0..30 {
        let key = format!("agent:{number}");
        eventually("a kept result to be there", async || cache.get(&key).await.ok().flatten()).await;
    }
    let mut ended = BTreeSet::new();
    within("all jobs to be worked off", async {
        while ended != ids {
            let Ok(Some(claim)) = queue.claim("worker", Duration::from_secs(1)).await else { continue };
            queue.settle(&claim, &completed("1")).await.unwrap();
            ended.insert(claim.job_id);
        }
    })
    .await;
    for id in &ids {
        assert_eq!(queue.read(id).await.unwrap().expect("it was replicated").status, JobStatus::Completed);
    }
}

/// The old master answers still, and turns everything away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_cut_off_from_the_others_is_left_for_the_one_that_took_its_place() {
    let cluster = RedisCluster::start_with_replica().await;
    let cache = RedisCache::new(Redis::open(&cluster.url()).unwrap());
    let nodes = cluster.nodes();
    // A key of the first master.
    let keys: Vec<_> = (0..30).map(|number| format!("agent:{number}")).collect();
    let mut of_the_first = None;
    for key in &keys {
        cache.put(key, result("1"), HOUR).await.unwrap();
        if nodes[0].ask(&["EXISTS", key]).await == "1" {
            of_the_first = Some(key);
        }
    }
    let key = of_the_first.expect("one of thirty");
    for other in &nodes[1..] {
        let id = other.ask(&["CLUSTER", "MYID"]).await;
        assert_eq!(nodes[0].ask(&["CLUSTER", "FORGET", &id]).await, "OK");
    }
    eventually("it to turn everything away", async || cache.get(key).await.err()).await;
    assert_eq!(nodes[3].ask(&["CLUSTER", "FAILOVER", "TAKEOVER"]).await, "OK");
    eventually("the new master to be found", async || cache.put(key, result("2"), HOUR).await.ok()).await;
}
