//! The queue on Redis: how stalled jobs are found among many active ones.

use std::time::Duration;

use agent_core::ports::queue::QUEUE;
use agent_core::ports::{AttemptEnd, JobQueue as _};
use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use redis_stores::bullmq::BullQueue;
use test_servers::Redis;

use crate::bullmq::{claim_next, connect, data, start};

const ACTIVE: &str = "bull:agent-tasks:active";
const ELECTION: &str = "agent-host:agent-tasks:checked";

/// How many active jobs one script may look at.
const MOST_LOOKED_AT: usize = 1000;

/// Longer than the test takes on a busy machine: what was claimed must not be stalled again meanwhile.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// How many jobs are held between two stalled ones.
const HELD: usize = 1200;

fn held(number: usize) -> String {
    format!("held-{number}")
}

fn lock_of(id: &str) -> String {
    format!("bull:agent-tasks:{id}:lock")
}

async fn all(redis: &mut MultiplexedConnection, pipeline: &Pipeline) {
    pipeline.query_async::<()>(redis).await.unwrap();
}

/// Jobs that somebody holds become active.
async fn hold(redis: &mut MultiplexedConnection, numbers: std::ops::Range<usize>) {
    let mut pipeline = redis::pipe();
    for id in numbers.map(held) {
        pipeline.lpush(ACTIVE, &id).ignore().set(lock_of(&id), "somebody").ignore();
    }
    all(redis, &pipeline).await;
}

/// A job becomes active that nobody holds.
async fn abandon(queue: &BullQueue, redis: &mut MultiplexedConnection) -> String {
    let id = queue.add(&data("q")).await.unwrap();
    let mut pipeline = redis::pipe();
    pipeline.lrem("bull:agent-tasks:wait", 1, &id).ignore().lpush(ACTIVE, &id).ignore();
    all(redis, &pipeline).await;
    id
}

/// What another process that claims is given: it looks for stalled jobs when it does so for the first time,
/// if nobody else was elected to. Says of how many jobs it looked at the lock.
async fn claim_of_another(server: &Redis, redis: &mut MultiplexedConnection) -> (Option<String>, usize) {
    let peer = BullQueue::open_with_lease(&server.url(), LONG_LEASE).unwrap();
    all(redis, redis::pipe().del(ELECTION).ignore()).await;
    let mut monitor = server.monitor().await;
    let claim = peer.claim("peer", Duration::ZERO).await.unwrap();
    let commands = monitor.commands().await.of_scripts;
    (claim.map(|claim| claim.job_id), commands.iter().filter(|name| *name == "GET").count())
}

#[tokio::test]
async fn of_many_active_jobs_each_look_takes_a_part_and_none_is_missed() {
    let (server, queue) = start().await;
    let mut redis = connect(&server).await;
    let oldest = abandon(&queue, &mut redis).await;
    hold(&mut redis, 0..HELD).await;
    let middle = abandon(&queue, &mut redis).await;
    hold(&mut redis, HELD..HELD * 2).await;
    let newest = abandon(&queue, &mut redis).await;

    for (expected, is_more) in [(Some(&newest), true), (Some(&middle), true), (Some(&oldest), false)] {
        let (claimed, looks) = claim_of_another(&server, &mut redis).await;
        assert_eq!(claimed.as_ref(), expected);
        // Three are of other keys than locks of active jobs.
        assert!(looks <= MOST_LOOKED_AT + 3, "{looks}");
        let elected_for: i64 = server.ask(&["PTTL", ELECTION]).await.parse().unwrap();
        // With at least 1,800 jobs in the list.
        assert!(elected_for <= 900 * 1000 / 1800, "the next part is looked at sooner: {elected_for}");
        let unchecked = "agent-host:agent-tasks:unchecked";
        let left: Option<usize> = redis::cmd("GET").arg(unchecked).query_async(&mut redis).await.unwrap();
        assert_eq!(left.is_some(), is_more, "{left:?}");
        // Jobs come, and older ones than the stalled ones end.
        hold(&mut redis, HELD * 2..HELD * 2 + 50).await;
        let mut ending = redis::pipe();
        for id in (0..300).map(held) {
            ending.lrem(ACTIVE, 1, id).ignore();
        }
        all(&mut redis, &ending).await;
    }
    // Then from the youngest on again.
    assert_eq!(claim_of_another(&server, &mut redis).await.0, None);
}

#[tokio::test]
async fn a_worker_finds_what_its_predecessor_held_among_many() {
    let (server, queue) = start().await;
    let mut redis = connect(&server).await;
    let oldest = abandon(&queue, &mut redis).await;
    hold(&mut redis, 0..HELD).await;
    let newest = abandon(&queue, &mut redis).await;
    let mut holding = redis::pipe();
    for id in [&oldest, &newest] {
        // Without an end, which is soon enough.
        holding.set(lock_of(id), "here#1:token").ignore();
    }
    all(&mut redis, &holding).await;
    let began = queue.now().await.unwrap();
    assert_eq!(queue.reclaim("elsewhere#2", began).await.unwrap(), 0);
    let mut monitor = server.monitor().await;
    assert_eq!(queue.reclaim("here#2", began).await.unwrap(), 2);
    let commands = monitor.commands().await;
    assert_eq!(commands.of_clients, ["EVALSHA"; 2], "a part of the list each");
}

/// Whoever holds that claim goes on until it is renewed, and has to be told apart in the journal.
#[tokio::test]
async fn the_number_of_a_claim_that_the_server_has_forgotten_is_not_given_again() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let claim = claim_next(&queue).await;
        assert!(claim.epoch.0 > last, "{} behind {last}", claim.epoch.0);
        last = claim.epoch.0;
        queue.settle(&claim, &AttemptEnd::HANDED_BACK).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        server.ask(&["HDEL", &format!("bull:{QUEUE}:{id}"), "agentHostClaims"]).await;
    }
}
