//! The queue on Redis: what it shares with BullMQ's own producers and workers, and Redis being away.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::queue::{ATTEMPTS, QUEUE};
use agent_core::ports::{AttemptEnd, Claim, JobQueue as _, QueueError, Renewal};
use agent_core::words::{CancelOutcome, JobData, JobQuery, JobStatus, Principal};
use bullmq::options::RedisConnectionOptions;
use bullmq::{Job, Queue, QueueOptions, Worker, WorkerOptions};
use redis::aio::MultiplexedConnection;
use redis_stores::bullmq::BullQueue;
use serde_json::json;
use test_servers::{PATIENCE, Redis, eventually, within};
use tokio::time::sleep;

use crate::contract::queue::Bench;
pub(crate) use crate::contract::queue::completed;

mod queue {
    crate::contract::queue::test_all!(test_each(super::open_queue));
}

/// Long enough for a test on a busy machine, short enough to wait for.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

async fn open_queue() -> Bench {
    let server = Redis::start().await;
    let open = || Arc::new(BullQueue::open_with_lease(&server.url(), LEASE).unwrap());
    Bench { queue: open(), peer: open(), lease: LEASE, _guard: Box::new(server) }
}

pub(crate) async fn start() -> (Redis, BullQueue) {
    let server = Redis::start().await;
    let queue = BullQueue::open_with_lease(&server.url(), LEASE).unwrap();
    (server, queue)
}

/// Opens this queue with BullMQ's official port.
pub(crate) async fn official(server: &Redis) -> Queue {
    let connection = RedisConnectionOptions::new().url(server.url());
    Queue::with_options(QUEUE, QueueOptions::new().connection(connection)).await.unwrap()
}

/// Somebody else who has the store open.
pub(crate) async fn connect(server: &Redis) -> MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

pub(crate) fn data(query: &str) -> JobData {
    JobData::new(query, "u1")
}

pub(crate) async fn claim_next(queue: &BullQueue) -> Claim {
    queue.claim("worker", PATIENCE).await.unwrap().expect("a job to take")
}

pub(crate) async fn status(queue: &BullQueue, id: &str) -> JobStatus {
    queue.read(id).await.unwrap().expect("the job is there").status
}

/// Adds a job as somebody would whose clock is ten seconds ahead.
async fn add_ahead(server: &Redis, queue: &BullQueue) {
    let id = queue.add(&data("q")).await.unwrap();
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() + 10_000;
    let job = format!("bull:agent-tasks:{id}");
    assert_eq!(server.ask(&["HSET", &job, "timestamp", &ahead.to_string()]).await, "0", "it had one");
}

/// One that was restarted or took another's place may have lost the last moments before that.
#[tokio::test]
async fn a_claim_is_the_first_one_only_if_the_server_cannot_have_forgotten_others() {
    let (server, queue) = start().await;
    add_ahead(&server, &queue).await;
    assert!(!claim_next(&queue).await.earlier.are_none, "nothing is known of the server");
    sleep(Duration::from_millis(50)).await;
    add_ahead(&server, &queue).await;
    assert!(claim_next(&queue).await.earlier.are_none, "added later, whatever the clocks");
    add_ahead(&server, &queue).await;
    server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    assert!(!claim_next(&queue).await.earlier.are_none);
}

#[tokio::test]
async fn a_job_of_another_producer_is_worked_off_and_listed() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    let added = producer.add("invoke", json!({"query": "q", "userId": 5})).priority(7).await.unwrap();
    assert_eq!(status(&queue, added.id()).await, JobStatus::Waiting);
    let claim = claim_next(&queue).await;
    assert_eq!(claim.data, Ok(JobData::new("q", "5")));
    queue.settle(&claim, &completed(r#"{"output":"3"}"#)).await.unwrap();
    let seen = producer.get_job(added.id()).await.unwrap().unwrap();
    assert_eq!(seen.returnvalue(), r#"{"output":"3"}"#);
    assert_eq!((seen.attempts_made(), seen.processed_by()), (1, Some("worker")));
    let listed = queue.list(&JobQuery { user_id: "5", status: None, limit: 1, cursor: None }).await.unwrap();
    assert_eq!(listed.jobs[0].id, added.id());
}

#[tokio::test]
async fn peers_see_who_submitted_a_job_in_its_options_and_not_in_its_data() {
    let (server, queue) = start().await;
    let submitter = Principal { tier: Some("premium".into()), ..Principal::user("u1") };
    let id = queue.add(&JobData::submitted_by(submitter, "q".into())).await.unwrap();
    let seen = official(&server).await.get_job(&id).await.unwrap().unwrap();
    assert_eq!(*seen.data(), json!({"query": "q", "userId": "u1"}));
    let key = format!("bull:{QUEUE}:{id}");
    let options: serde_json::Value =
        serde_json::from_str(&server.ask(&["HGET", &key, "opts"]).await).unwrap();
    assert_eq!(options["agentHostSubmitter"], json!({"tier": "premium"}));
    // A producer that knows nothing of this adds jobs of callers without a tier.
    let claim = claim_next(&queue).await;
    queue.settle(&claim, &completed("1")).await.unwrap();
    official(&server).await.add("invoke", json!({"query": "q", "userId": "u1"})).await.unwrap();
    assert_eq!(claim_next(&queue).await.data.unwrap().principal(), Principal::user("u1"));
}

#[tokio::test]
async fn a_job_of_ours_is_worked_off_by_another_worker() {
    let (server, queue) = start().await;
    let connection = RedisConnectionOptions::new().url(server.url());
    let work = |job: Job, _token| async move { Ok(json!({"asked": job.data()["query"]})) };
    let id = queue.add(&data("q")).await.unwrap();
    let worker =
        Worker::with_options(QUEUE, work, WorkerOptions::new().connection(connection)).await.unwrap();
    let job = eventually("the other worker to be done", async || {
        queue.read(&id).await.unwrap().filter(|job| job.status.has_ended())
    })
    .await;
    assert_eq!(job.status, JobStatus::Completed);
    assert_eq!(job.result.unwrap().get(), r#"{"asked":"q"}"#);
    worker.close(0).await.unwrap();
}

#[tokio::test]
async fn data_that_is_none_of_ours_is_handed_out_with_what_is_wrong_with_it() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    for wrong in [json!(null), json!([]), json!({}), json!({"query": 5, "userId": "u1"})] {
        let added = producer.add("invoke", wrong).await.unwrap();
        let claim = claim_next(&queue).await;
        let error = claim.data.clone().unwrap_err();
        queue.settle(&claim, &AttemptEnd::Failed { error, retry: false }).await.unwrap();
        assert_eq!(status(&queue, added.id()).await, JobStatus::Failed);
    }
}

#[tokio::test]
async fn attempts_are_as_many_as_the_producer_asked_for() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    for (asked, made) in [(None, ATTEMPTS), (Some(1), 1), (Some(2), 2)] {
        let job = producer.add("invoke", json!({"query": "q", "userId": "u1"}));
        let job = if let Some(asked) = asked { job.attempts(asked) } else { job };
        let id = job.await.unwrap().id().to_owned();
        let mut run_id = None;
        for number in 0..made {
            if asked.is_some() {
                assert_eq!(status(&queue, &id).await, JobStatus::Waiting, "made again at once");
            }
            let claim = claim_next(&queue).await;
            assert_eq!((&claim.job_id, claim.attempts_made), (&id, number));
            assert_eq!(*run_id.get_or_insert(claim.run_id.clone()), claim.run_id, "the run goes on");
            queue.settle(&claim, &AttemptEnd::Failed { error: "no".into(), retry: true }).await.unwrap();
        }
        let job = queue.read(&id).await.unwrap().unwrap();
        assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, made), "{asked:?}");
    }
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_until_it_goes_on() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    queue.add(&data("first")).await.unwrap();
    let first = claim_next(&queue).await;
    producer.pause().await.unwrap();
    let id = queue.add(&data("q")).await.unwrap();
    let with_an_end = queue.settle_and_claim(&first, &completed("1"), "worker").await.unwrap();
    assert_eq!((with_an_end, queue.claim("worker", Duration::ZERO).await.unwrap()), (None, None));
    assert_eq!(status(&queue, &id).await, JobStatus::Waiting);
    assert_eq!(queue.depth().await.unwrap().waiting, 1);
    producer.resume().await.unwrap();
    assert_eq!(claim_next(&queue).await.job_id, id);
}

/// BullMQ's own check for stalled jobs is due once in half a minute for all workers together.
#[tokio::test]
async fn a_node_worker_does_not_keep_us_from_finding_jobs_of_the_dead() {
    let (server, queue) = start().await;
    let check = format!("bull:{QUEUE}:stalled-check");
    assert_eq!(server.ask(&["SET", &check, "1"]).await, "OK");
    let id = queue.add(&data("q")).await.unwrap();
    assert_eq!(claim_next(&queue).await.job_id, id);
    assert_eq!(claim_next(&queue).await.job_id, id);
}

#[tokio::test]
async fn an_expired_lease_is_renewed_while_nobody_else_has_the_job() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    let claim = claim_next(&queue).await;
    let lock = format!("bull:{QUEUE}:{id}:lock");
    for _ in 0..2 {
        assert_eq!(server.ask(&["DEL", &lock]).await, "1");
        assert_eq!(queue.renew(&claim).await.unwrap(), Renewal::Held);
    }
    assert_eq!(server.ask(&["DEL", &lock]).await, "1");
    queue.settle(&claim, &completed("1")).await.unwrap();
    assert_eq!(status(&queue, &id).await, JobStatus::Completed);
}

#[tokio::test]
async fn a_cancelled_job_leaves_nothing_of_bullmqs_behind() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    let waiting = queue.add(&data("q")).await.unwrap();
    queue.cancel(&waiting).await.unwrap();
    let active = queue.add(&data("q")).await.unwrap();
    let claim = claim_next(&queue).await;
    queue.cancel(&active).await.unwrap();
    queue.settle(&claim, &AttemptEnd::Cancelled).await.unwrap();
    for id in [waiting, active] {
        assert!(producer.get_job(&id).await.unwrap().is_none());
        assert_eq!(status(&queue, &id).await, JobStatus::Cancelled);
    }
    let counts = producer.get_job_counts().await.unwrap();
    assert_eq!((counts.waiting, counts.active), (0, 0));
}

/// BullMQ removes no job with a child that somebody works on. A removal that is lost leaves as much.
#[tokio::test]
async fn what_is_not_removed_of_a_cancelled_job_expires() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    let (job, child) = (format!("bull:agent-tasks:{id}"), "bull:agent-tasks:child");
    assert_eq!(server.ask(&["SADD", &format!("{job}:dependencies"), child]).await, "1");
    assert_eq!(server.ask(&["SET", &format!("{child}:lock"), "t"]).await, "OK");
    assert_eq!(queue.cancel(&id).await, Ok(CancelOutcome::Done));
    let left: i64 = server.ask(&["TTL", &job]).await.parse().unwrap();
    assert!(left > 0, "{left}");
}

/// Wherever it is when its caller goes away.
#[tokio::test]
async fn a_job_is_not_lost_with_a_caller_who_does_not_wait_for_it() {
    let (_server, queue) = start().await;
    for polls in 0..40 {
        let id = queue.add(&data("q")).await.unwrap();
        let mut taking = Box::pin(queue.claim("impatient", PATIENCE));
        let mut claim = None;
        for _ in 0..polls {
            tokio::select! {
                biased;
                taken = &mut taking => { claim = taken.unwrap(); break; }
                () = tokio::task::yield_now() => {}
            }
        }
        drop(taking);
        let claim = match claim {
            Some(claim) => claim,
            None => queue.claim("worker", LEASE / 2).await.unwrap().expect("it is still there"),
        };
        assert_eq!(claim.job_id, id);
        queue.settle(&claim, &completed("1")).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_claimed_for_nobody_is_released_when_the_queue_closes() {
    let (server, queue) = start().await;
    let peer = BullQueue::new(&redis_stores::redis::Redis::open(&server.url()).unwrap(), None);
    let id = queue.add(&data("q")).await.unwrap();
    let mut taking = Box::pin(queue.claim("worker", PATIENCE));
    // Until Redis has given the job out. Should it be in our hands by then, there is nothing to be tested.
    while status(&peer, &id).await == JobStatus::Waiting {
        if futures::poll!(&mut taking).is_ready() {
            return;
        }
    }
    drop(taking);
    queue.close().await;
    assert_eq!(peer.claim("peer", Duration::ZERO).await.unwrap().expect("given back").job_id, id);
}

#[tokio::test]
async fn runs_are_told_apart_when_redis_was_emptied() {
    let (server, queue) = start().await;
    queue.add(&data("q")).await.unwrap();
    let before = claim_next(&queue).await;
    assert_eq!(server.ask(&["FLUSHALL"]).await, "OK");
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, "OK");
    assert_eq!(queue.renew(&before).await.unwrap(), Renewal::Lost);
    queue.add(&data("q")).await.unwrap();
    let after = claim_next(&queue).await;
    assert_eq!(before.job_id, after.job_id);
    assert_ne!(before.run_id, after.run_id);
    let error = queue.settle(&before, &completed("1")).await.unwrap_err();
    assert_eq!(error, QueueError::LeaseLost { job_id: before.job_id.clone() });
}

#[tokio::test]
async fn a_queue_whose_redis_is_away_fails_and_works_again_when_it_is_back() {
    let mut server = Redis::start().await;
    server.pause().await;
    let queue = BullQueue::open_with_lease(&server.url(), LEASE).unwrap();
    for _ in 0..2 {
        queue.add(&data("q")).await.unwrap_err();
        queue.claim("worker", PATIENCE).await.unwrap_err();
    }
    server.resume().await;
    let id = eventually("the queue to take jobs", async || queue.add(&data("q")).await.ok()).await;
    let claim = eventually("the queue to give jobs", async || {
        queue.claim("worker", Duration::ZERO).await.ok().flatten()
    })
    .await;
    assert_eq!(claim.job_id, id);
    // The next outage comes while somebody waits for a job.
    let mut waiting = Box::pin(queue.claim("worker", PATIENCE));
    assert!(futures::poll!(&mut waiting).is_pending());
    server.pause().await;
    within("the outage to be noticed", waiting).await.unwrap_err();
    server.resume().await;
    eventually("the lease to be renewed", async || queue.renew(&claim).await.ok()).await;
}

#[tokio::test]
async fn a_job_is_added_once_though_the_connection_died_unnoticed() {
    let mut server = Redis::start().await;
    let queue = BullQueue::new(&redis_stores::redis::Redis::open(&server.url()).unwrap(), None);
    queue.add(&data("q")).await.unwrap();
    server.pause().await;
    server.resume().await;
    queue.add(&data("q")).await.unwrap();
    assert_eq!(queue.depth().await.unwrap().waiting, 2);
}

#[tokio::test]
async fn a_frozen_redis_is_an_error_and_not_a_wait_for_ever() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    server.freeze();
    for _ in 0..2 {
        assert!(matches!(queue.read(&id).await.unwrap_err(), QueueError::Store { .. }));
    }
    within("taking to fail", queue.claim("worker", PATIENCE)).await.unwrap_err();
    server.thaw();
    eventually("the queue to give the job", async || {
        queue.claim("worker", Duration::ZERO).await.ok().flatten()
    })
    .await;
}

#[tokio::test]
async fn a_repeatable_job_of_bullmq_5_is_worked_on_and_none_follows() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    let key = format!("bull:{QUEUE}:{id}");
    assert_eq!(server.ask(&["HSET", &key, "rjk", "invoke::::* * * * *"]).await, "1");
    let claim = claim_next(&queue).await;
    queue.settle(&claim, &completed("1")).await.unwrap();
    assert_eq!(queue.depth().await.unwrap(), agent_core::words::Depth::default());
}

pub(crate) async fn schedule_hourly(server: &Redis) {
    let producer = official(server).await;
    let hour = bullmq::job_scheduler::RepeatOptions { every: Some(3_600_000), ..Default::default() };
    let data = json!({"query": "q", "userId": "u1"});
    producer.upsert_job_scheduler("hourly", hour, Some("invoke"), Some(data), None).await.unwrap();
}

#[tokio::test]
async fn the_next_iteration_of_a_scheduler_is_no_job_that_can_be_cancelled() {
    let (server, queue) = start().await;
    schedule_hourly(&server).await;
    let first = claim_next(&queue).await;
    queue.settle(&first, &completed("1")).await.unwrap();
    let depth = queue.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.delayed), (0, 1), "the next one is there as soon as this one was taken");
    let mut redis = connect(&server).await;
    let delayed: Vec<String> = redis::cmd("ZRANGE")
        .arg(format!("bull:{QUEUE}:delayed"))
        .arg(0)
        .arg(-1)
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(queue.cancel(&delayed[0]).await, Ok(CancelOutcome::Refused));
    assert_eq!(queue.depth().await.unwrap().delayed, 1);
}

/// Node's worker gives such a job up until it has stalled too often, and fails it.
#[tokio::test]
async fn a_job_whose_next_iteration_is_refused_for_good_fails_and_the_queue_goes_on() {
    let (server, queue) = start().await;
    schedule_hourly(&server).await;
    let scheduler = format!("bull:{QUEUE}:repeat:hourly");
    assert_eq!(server.ask(&["SET", &scheduler, "not a hash"]).await, "OK");
    let claim = claim_next(&queue).await;
    let error = claim.data.clone().unwrap_err();
    assert_eq!(
        error,
        "The next iteration of its job scheduler could not be added: Redis refused (WRONGTYPE)"
    );
    queue.settle(&claim, &AttemptEnd::Failed { error, retry: false }).await.unwrap();
    assert_eq!(status(&queue, &claim.job_id).await, JobStatus::Failed);
    let next = queue.add(&data("next")).await.unwrap();
    assert_eq!(claim_next(&queue).await.job_id, next);
    assert_eq!(queue.depth().await.unwrap().active, 1);
}

/// Permissions that are missing now may be given in a moment: the schedule goes on.
#[tokio::test]
async fn a_scheduler_survives_a_redis_that_refuses_its_next_iteration_for_a_while() {
    let (server, queue) = start().await;
    schedule_hourly(&server).await;
    // The script of the next iteration begins with it; taking a job does without.
    let may = async |rule: &str| assert_eq!(server.ask(&["ACL", "SETUSER", "default", rule]).await, "OK");
    may("-zscore").await;
    queue.claim("worker", PATIENCE).await.unwrap_err();
    may("+zscore").await;
    let claim = claim_next(&queue).await;
    assert!(claim.data.is_ok(), "{claim:?}");
    assert_eq!(queue.depth().await.unwrap().delayed, 1);
}

#[tokio::test]
async fn a_wish_to_cancel_is_about_one_attempt() {
    let (server, queue) = start().await;
    let id = queue.add(&data("q")).await.unwrap();
    let claim = claim_next(&queue).await;
    assert_eq!(queue.cancel(&id).await, Ok(CancelOutcome::Asked));
    assert_eq!(queue.renew(&claim).await, Ok(Renewal::Cancelled));
    // Somebody else counts another attempt: what is done now is not what was meant.
    let key = format!("bull:{QUEUE}:{id}");
    server.ask(&["HINCRBY", &key, "atm", "1"]).await;
    assert_eq!(queue.renew(&claim).await, Ok(Renewal::Held));
    // However long nobody is there who could hear of it.
    let wish = format!("agent-host:{QUEUE}:wish:{id}");
    let kept: i64 = server.ask(&["TTL", &wish]).await.parse().unwrap();
    assert!(kept > 365 * 24 * 3600, "{kept}");
}
