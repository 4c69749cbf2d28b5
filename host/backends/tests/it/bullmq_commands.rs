//! The queue on Redis: how many commands a job takes, what they search, what becomes of one that is sent
//! twice, and what BullMQ's stream of events tells those who wait.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::queue::QUEUE;
use agent_core::ports::{AttemptEnd, ChangedJobs, Claim, JobQueue as _, QueueError, Renewal};
use agent_core::words::{CancelOutcome, JobData, JobQuery, JobStatus, ParkedRun, RetryOutcome};
use futures::future::join_all;
use redis_stores::bullmq::BullQueue;
use serde_json::json;
use test_servers::{PATIENCE, Proxy, Redis, Task, eventually};
use tokio::time::{Instant, sleep};

use crate::bullmq::{LEASE, claim_next, completed, data, official, start, status};

/// Whether no claim of the job was lost before. The number of a claim is no count: it is the server's time.
fn is_first(claim: &Claim) -> bool {
    claim.earlier.lost == 0
}

/// Commands that search a list from one end to the other.
const SEARCHES: [&str; 3] = ["LPOS", "LRANGE", "LREM"];

/// Redis, and the queue behind a proxy. The scripts are loaded: no answer is needed for that any more.
async fn start_behind_a_proxy() -> (Redis, Proxy, Arc<BullQueue>) {
    let server = Redis::start().await;
    let proxy = Proxy::before(server.address()).await;
    let queue = BullQueue::open_with_lease(&format!("redis://{}", proxy.address()), LEASE).unwrap();
    queue.add(&data("q")).await.unwrap();
    let first = claim(&queue).await;
    assert_eq!(queue.settle_and_claim(&first, &completed("1"), "worker").await.unwrap(), None);
    (server, proxy, Arc::new(queue))
}

async fn length(server: &Redis, list: &str) -> u64 {
    server.ask(&["LLEN", &format!("bull:agent-tasks:{list}")]).await.parse().unwrap()
}

/// The ids of so many new jobs.
async fn add(queue: &BullQueue, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(queue.add(&data("q")).await.unwrap());
    }
    ids
}

async fn claim(queue: &BullQueue) -> Claim {
    queue.claim("worker", Duration::ZERO).await.unwrap().expect("a job to take")
}

#[tokio::test]
async fn a_job_takes_three_commands_and_two_when_it_follows_another() {
    let (server, queue) = start().await;
    // The first one loads the scripts.
    queue.add(&data("q")).await.unwrap();
    let first = claim(&queue).await;
    queue.settle(&first, &completed("1")).await.unwrap();

    let mut monitor = server.monitor().await;
    add(&queue, 3).await;
    assert_eq!(monitor.commands().await.of_clients, ["EVALSHA"; 3]);
    let mut claimed = claim(&queue).await;
    let mut tokens = vec![claimed.token.clone()];
    for _ in 0..2 {
        let next = queue.settle_and_claim(&claimed, &completed("1"), "worker").await.unwrap();
        claimed = next.expect("a job that follows");
        assert_eq!((is_first(&claimed), claimed.attempts_made), (true, 0));
        assert_eq!(claimed.data, Ok(data("q")));
        tokens.push(claimed.token.clone());
    }
    assert_eq!(queue.settle_and_claim(&claimed, &completed("1"), "worker").await.unwrap(), None);
    assert_eq!(monitor.commands().await.of_clients, ["EVALSHA"; 4]);
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "each claim has a token of its own");
}

/// Five slots of a process, none of which finds a job, as they wait one after the other for the same marker.
#[tokio::test]
async fn an_idle_slot_does_not_poll_while_the_marker_is_waited_for() {
    let (server, queue) = start().await;
    // The first one loads the script.
    assert_eq!(queue.claim("worker", Duration::ZERO).await, Ok(None));
    let mut monitor = server.monitor().await;
    let idle = async |slot: u32| {
        let patience = Duration::from_secs(1) + Duration::from_millis(130) * slot;
        for _ in 0..3 {
            assert_eq!(queue.claim("worker", patience).await, Ok(None));
        }
    };
    join_all((0..5).map(idle)).await;
    let commands = monitor.commands().await.of_clients;
    let of = |name: &str| commands.iter().filter(|command| *command == name).count();
    let (polls, waits) = (of("EVALSHA"), of("BZPOPMIN"));
    assert!(polls > 0 && polls <= waits + 1, "each poll is followed by a wait: {polls} polls, {waits} waits");
}

#[tokio::test]
async fn leases_that_are_due_together_are_renewed_by_one_command() {
    let (server, queue) = start().await;
    let mut claims = Vec::new();
    for _ in 0..5 {
        queue.add(&data("q")).await.unwrap();
        claims.push(claim(&queue).await);
    }
    // The first one loads the script.
    assert_eq!(queue.renew(&claims[0]).await, Ok(Renewal::Held));
    let renew_all = async || join_all(claims.iter().map(|claim| queue.renew(claim))).await;
    let mut monitor = server.monitor().await;
    assert_eq!(renew_all().await, vec![Ok(Renewal::Held); 5]);
    assert_eq!(monitor.commands().await.of_clients, ["EVALSHA"]);
    // Each is told what became of its own job.
    queue.settle(&claims[0], &completed("1")).await.unwrap();
    assert_eq!(queue.cancel(&claims[1].job_id).await, Ok(CancelOutcome::Asked));
    let renewed: Vec<_> = renew_all().await.into_iter().map(Result::unwrap).collect();
    let [lost, cancelled, held] = [Renewal::Lost, Renewal::Cancelled, Renewal::Held];
    assert_eq!(renewed, [lost, cancelled, held, held, held]);
}

#[tokio::test]
async fn a_job_that_was_claimed_with_the_end_of_another_is_leased_like_any_other() {
    let (server, queue) = start().await;
    let peer = BullQueue::open_with_lease(&server.url(), LEASE).unwrap();
    let ids = [queue.add(&data("1")).await.unwrap(), queue.add(&data("2")).await.unwrap()];
    let first = claim(&queue).await;
    let second = queue.settle_and_claim(&first, &completed("1"), "worker").await.unwrap().unwrap();
    assert_eq!((&first.job_id, &second.job_id), (&ids[0], &ids[1]));
    assert_eq!(queue.renew(&second).await, Ok(Renewal::Held));
    assert_eq!(queue.renew(&first).await, Ok(Renewal::Lost));
    // The second job's lease runs out like any other.
    let again = peer.claim("peer", PATIENCE).await.unwrap().expect("the lease ran out");
    assert_eq!((&again.job_id, again.epoch > second.epoch), (&second.job_id, true));
    let lost = queue.settle(&second, &completed("1")).await.unwrap_err();
    assert_eq!(lost, QueueError::LeaseLost { job_id: second.job_id.clone() });
    // A job that failed for good makes room as well, and one that is tried again does not.
    queue.add(&data("3")).await.unwrap();
    let no = |retry| AttemptEnd::Failed { error: "no".into(), retry };
    let third = peer.settle_and_claim(&again, &no(false), "peer").await.unwrap().unwrap();
    queue.add(&data("4")).await.unwrap();
    assert_eq!(peer.settle_and_claim(&third, &no(true), "peer").await.unwrap(), None);
    assert_eq!(status(&queue, &third.job_id).await, JobStatus::Delayed);
}

#[tokio::test]
async fn reading_and_waiting_for_a_job_searches_nothing() {
    let (server, queue) = start().await;
    let ids = add(&queue, 10).await;
    let claimed = claim(&queue).await;
    let mut monitor = server.monitor().await;
    for id in &ids {
        let expected = if *id == claimed.job_id { JobStatus::Active } else { JobStatus::Waiting };
        assert_eq!(status(&queue, id).await, expected);
    }
    let commands = monitor.commands().await;
    assert!(!commands.of_scripts.iter().any(|name| SEARCHES.contains(&name.as_str())), "{commands:?}");
}

/// A job may have a large result: one that is not wanted is not read.
#[tokio::test]
async fn a_page_of_jobs_reads_no_more_of_them_than_it_shows() {
    let (server, queue) = start().await;
    add(&queue, 10).await;
    let wanted = JobQuery { user_id: "u1", status: None, limit: 2, cursor: None };
    let mut monitor = server.monitor().await;
    assert_eq!(queue.list(&wanted).await.unwrap().jobs.len(), 2);
    let commands = monitor.commands().await;
    let reads = commands.of_scripts.iter().filter(|name| *name == "HMGET").count();
    // A job is asked whether it is one, and then what it is. One more job says that there is another page.
    assert_eq!(reads, 2 * 3, "{commands:?}");
}

/// A Node worker may remove hundreds of jobs, which stay in the list of their user until it is read.
#[tokio::test]
async fn a_list_of_many_jobs_that_are_gone_takes_few_commands() {
    let (server, queue) = start().await;
    let ids = add(&queue, 60).await;
    for id in &ids[1..59] {
        assert_eq!(server.ask(&["DEL", &format!("bull:{QUEUE}:{id}")]).await, "1");
    }
    let wanted = JobQuery { user_id: "u1", status: None, limit: 2, cursor: None };
    let mut monitor = server.monitor().await;
    let page = queue.list(&wanted).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&ids[59], &ids[0]]);
    let commands = monitor.commands().await.of_clients;
    let ranges = commands.iter().filter(|command| *command == "ZREVRANGEBYSCORE").count();
    assert_eq!((ranges, commands.last().map(String::as_str)), (2, Some("ZREM")), "{commands:?}");
}

#[tokio::test]
async fn one_process_at_a_time_looks_for_stalled_jobs() {
    let (server, queue) = start().await;
    let peer = BullQueue::open_with_lease(&server.url(), LEASE).unwrap();
    let election = "agent-host:agent-tasks:checked";
    // Somebody else looks for them at the moment.
    assert_eq!(server.ask(&["SET", election, "1"]).await, "OK");
    queue.add(&data("q")).await.unwrap();
    let mut monitor = server.monitor().await;
    claim(&queue).await;
    let commands = monitor.commands().await;
    assert!(!commands.of_scripts.iter().any(|name| SEARCHES.contains(&name.as_str())), "{commands:?}");
    assert_eq!(server.ask(&["DEL", election]).await, "1");
    assert_eq!(peer.claim("peer", Duration::ZERO).await.unwrap(), None);
    let commands = monitor.commands().await;
    let scans = commands.of_scripts.iter().filter(|name| *name == "LRANGE").count();
    assert_eq!(scans, 1, "{commands:?}");
    let left: i64 = server.ask(&["PTTL", election]).await.parse().unwrap();
    assert!(left <= 900, "it is given up soon: {left}");
}

/// The answer to the addition was lost with the connection, so the addition is sent once more.
#[tokio::test]
async fn a_job_whose_addition_is_sent_twice_is_added_once() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    queue.add(&data("first")).await.unwrap();
    proxy.stall_answers();
    let adding = Task::begin({
        let queue = queue.clone();
        async move { queue.add(&data("second")).await }
    });
    eventually("Redis to have it", async || (length(&server, "wait").await == 2).then_some(())).await;
    proxy.reset().await;
    assert_eq!(adding.ended().await.unwrap(), "3");
    assert_eq!(length(&server, "wait").await, 2);
}

#[tokio::test]
async fn a_claim_that_is_sent_twice_leases_one_job() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    let ids = [queue.add(&data("first")).await.unwrap(), queue.add(&data("second")).await.unwrap()];
    proxy.stall_answers();
    let claiming = Task::begin({
        let queue = queue.clone();
        async move { claim(&queue).await }
    });
    eventually("Redis to have leased it", async || (length(&server, "active").await == 1).then_some(()))
        .await;
    proxy.reset().await;
    let claimed = claiming.ended().await;
    assert_eq!((&claimed.job_id, is_first(&claimed)), (&ids[0], true));
    assert_eq!(length(&server, "active").await, 1);
    queue.settle(&claimed, &completed("1")).await.unwrap();
}

/// The lease runs in Redis while the answer is under way: a worker that counted from the answer would take
/// the job for its own when another one already has it.
#[tokio::test]
async fn a_lease_is_counted_from_before_it_was_asked_for_however_late_the_answer_comes() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    queue.add(&data("first")).await.unwrap();
    queue.add(&data("second")).await.unwrap();
    let mut given: Option<Claim> = None;
    for waiting in [1, 0] {
        proxy.stall_answers();
        let asking = Task::begin({
            let (queue, given) = (queue.clone(), given.take());
            async move {
                let Some(given) = given else { return claim(&queue).await };
                let next = queue.settle_and_claim(&given, &completed("1"), "worker").await.unwrap();
                next.expect("a job that follows")
            }
        });
        eventually("Redis to have leased it", async || {
            (length(&server, "wait").await == waiting).then_some(())
        })
        .await;
        let leased = Instant::now().into_std();
        sleep(LEASE / 4).await;
        proxy.pass().await;
        let claimed = asking.ended().await;
        assert!(claimed.leased_at <= leased, "{:?} after it was leased", claimed.leased_at - leased);
        given = Some(claimed);
    }
}

#[tokio::test]
async fn an_end_that_is_sent_twice_ends_one_job_and_claims_one() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    let ids = add(&queue, 3).await;
    let first = claim(&queue).await;
    proxy.stall_answers();
    let ending = Task::begin({
        let (queue, first) = (queue.clone(), first.clone());
        async move { queue.settle_and_claim(&first, &completed("1"), "worker").await }
    });
    eventually("Redis to have ended it", async || (length(&server, "wait").await == 1).then_some(())).await;
    proxy.reset().await;
    let second = ending.ended().await.unwrap().expect("the job that was claimed the first time");
    assert_eq!((&second.job_id, is_first(&second)), (&ids[1], true));
    // Sent by a worker that had no answer in time, it is the same end as well, and the next job's lease
    // begins anew: whoever sends it counts from then on.
    sleep(LEASE / 4).await;
    let again = queue.settle_and_claim(&first, &completed("1"), "worker").await.unwrap();
    assert_eq!(again.map(|claim| claim.token), Some(second.token.clone()));
    let lock = format!("bull:agent-tasks:{}:lock", second.job_id);
    let left = server.ask(&["PTTL", &lock]).await.parse().unwrap();
    assert!(Duration::from_millis(left) > LEASE * 3 / 4, "{left} ms are left");
    assert_eq!((length(&server, "wait").await, length(&server, "active").await), (1, 1));
    assert_eq!(status(&queue, &first.job_id).await, JobStatus::Completed);
    let other = queue.settle(&first, &completed("2")).await.unwrap_err();
    assert_eq!(other, QueueError::LeaseLost { job_id: first.job_id.clone() });
    queue.settle(&second, &AttemptEnd::HANDED_BACK).await.unwrap();
    queue.settle(&second, &AttemptEnd::HANDED_BACK).await.unwrap();
    assert_eq!(length(&server, "wait").await, 2);
}

#[tokio::test]
async fn a_retry_that_is_sent_twice_is_made_once_and_told_as_made() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    let failed = AttemptEnd::Failed { error: "no".into(), retry: false };
    let fail = async || {
        let id = queue.add(&data("q")).await.unwrap();
        queue.settle(&claim(&queue).await, &failed).await.unwrap();
        id
    };
    // The first one loads the script.
    let first = fail().await;
    assert_eq!(queue.retry(&first).await, Ok(RetryOutcome::Done));
    assert_eq!(queue.retry(&first).await, Ok(RetryOutcome::NotFailed));
    assert_eq!(queue.cancel(&first).await, Ok(CancelOutcome::Done));
    let id = fail().await;
    proxy.stall_answers();
    let retrying = Task::begin({
        let (queue, id) = (queue.clone(), id.clone());
        async move { queue.retry(&id).await }
    });
    eventually("Redis to have put it back", async || (length(&server, "wait").await == 1).then_some(()))
        .await;
    proxy.reset().await;
    assert_eq!(retrying.ended().await, Ok(RetryOutcome::Done));
    assert_eq!((length(&server, "wait").await, status(&queue, &id).await), (1, JobStatus::Waiting));
}

/// By the owner of a job that waits, and by the worker of one that is active.
#[tokio::test]
async fn a_cancellation_that_is_sent_twice_is_carried_out_and_leaves_nothing_of_bullmqs_behind() {
    let (server, mut proxy, queue) = start_behind_a_proxy().await;
    // The first one loads the scripts.
    let id = queue.add(&data("q")).await.unwrap();
    assert_eq!(queue.cancel(&id).await, Ok(CancelOutcome::Done));
    for list in ["wait", "active"] {
        let id = queue.add(&data("q")).await.unwrap();
        let claimed = if list == "active" { Some(claim(&queue).await) } else { None };
        proxy.stall_answers();
        let cancelling = Task::begin({
            let (queue, id) = (queue.clone(), id.clone());
            async move {
                match claimed {
                    Some(claimed) => queue.settle(&claimed, &AttemptEnd::Cancelled).await,
                    None => queue.cancel(&id).await.map(|outcome| assert_eq!(outcome, CancelOutcome::Done)),
                }
            }
        });
        eventually("Redis to have cancelled it", async || (length(&server, list).await == 0).then_some(()))
            .await;
        proxy.reset().await;
        cancelling.ended().await.unwrap();
        let key = format!("bull:agent-tasks:{id}");
        let left = server.ask(&["EXISTS", &key]).await;
        assert_eq!((&*left, status(&queue, &id).await), ("0", JobStatus::Cancelled), "{list}");
    }
}

#[tokio::test]
async fn ids_go_on_when_the_queue_was_obliterated() {
    let (server, queue) = start().await;
    let before = [queue.add(&data("q")).await.unwrap(), queue.add(&data("q")).await.unwrap()];
    assert_eq!(before, ["1", "2"]);
    official(&server).await.obliterate(true, 1000).await.unwrap();
    assert!(queue.read("2").await.unwrap().is_none());
    assert_eq!(queue.add(&data("q")).await.unwrap(), "3");
    assert!(queue.read("2").await.unwrap().is_none());
}

/// Reads on until something has happened to jobs.
async fn changed(queue: &BullQueue, cursor: &mut String) -> ChangedJobs {
    loop {
        let changes = queue.changes(Some(cursor)).await.unwrap().expect("this queue tells");
        *cursor = changes.cursor;
        if changes.jobs != ChangedJobs::These(vec![]) {
            return changes.jobs;
        }
    }
}

#[tokio::test]
async fn the_queue_says_which_jobs_end_are_parked_or_gone_whoever_does_it() {
    let (server, queue) = start().await;
    let producer = official(&server).await;
    let ids = add(&queue, 6).await;
    let first = queue.changes(None).await.unwrap().expect("this queue tells");
    assert_eq!(first.jobs, ChangedJobs::Any, "nothing was followed before");
    let mut cursor = first.cursor;
    let these = |id: &String| ChangedJobs::These(vec![id.clone()]);

    let claimed = claim(&queue).await;
    queue.settle(&claimed, &completed("1")).await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, these(&ids[0]));
    let claimed = claim(&queue).await;
    let no = AttemptEnd::Failed { error: "no".into(), retry: false };
    queue.settle(&claimed, &no).await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, these(&ids[1]));
    let claimed = claim(&queue).await;
    let until = SystemTime::now() + Duration::from_secs(3600);
    queue.settle(&claimed, &AttemptEnd::Parked { until, open: Default::default() }).await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, these(&ids[2]), "whoever waits for it is answered");
    queue.cancel(&ids[3]).await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, these(&ids[3]));
    producer.remove(&ids[4]).await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, these(&ids[4]));
    producer.clean(0, 10, "wait").await.unwrap();
    assert_eq!(changed(&queue, &mut cursor).await, ChangedJobs::Any, "it does not say which");
    assert!(queue.read(&ids[5]).await.unwrap().is_none());
}

/// A job that waits for months stays in its owner's list, however many short ones follow.
#[tokio::test]
async fn a_list_is_kept_for_as_long_as_the_job_in_it_that_waits_longest() {
    let (server, queue) = start().await;
    let list = format!("agent-host:{QUEUE}:user:u1");
    let kept_for = async || -> u64 { server.ask(&["TTL", &list]).await.parse().unwrap() };
    let months = Duration::from_secs(60 * 24 * 3600);
    let until = SystemTime::now() + months;
    let goes_on = Some(ParkedRun { run_id: "run_1".into(), until, open: Default::default() });
    queue.add(&JobData { goes_on, ..data("pay").with_id("01a204ec6206715fbb305322b42db970") }).await.unwrap();
    assert!(kept_for().await > months.as_secs());
    queue.add(&data("short")).await.unwrap();
    assert!(kept_for().await > months.as_secs(), "one of ours");
    // What another producer added is listed when it is claimed.
    official(&server).await.add("invoke", json!({"query": "q", "userId": "u1"})).await.unwrap();
    for _ in 0..2 {
        let claim = claim_next(&queue).await;
        let soon = SystemTime::now() + Duration::from_secs(60);
        queue.settle(&claim, &AttemptEnd::Parked { until: soon, open: Default::default() }).await.unwrap();
    }
    assert!(kept_for().await > months.as_secs(), "one of another producer, and one that parks for a while");
}
