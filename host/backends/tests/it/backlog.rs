//! A backlog of 100,000 jobs: claiming, ending and reading one costs what it costs with ten, and those who
//! wait for jobs ask nothing of the queue meanwhile. Counted in commands, bytes and rows, since times say
//! more of the machine.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, Claim, JobQueue, QueueError, Renewal};
use agent_core::words::JobStatus;
use backends::sql::SqlQueue;
use redis::aio::MultiplexedConnection;
use redis_stores::bullmq::BullQueue;
use run_service::jobs::Jobs;
use sqlx::{Connection as _, PgConnection};
use test_servers::{Monitor, PATIENCE, Redis, Task, eventually};
use tokio::time::sleep;

use crate::bullmq::{completed, connect, data, start};
use crate::sql::{Database, open_queue_of};

const BACKLOG: usize = 100_000;
const FEW: usize = 10;

/// Callers who wait for a job each.
const WAITERS: usize = 100;

/// Jobs whose commands are counted.
const COUNTED: usize = 10;

/// Copies the job that was added first, as BullMQ's own script wrote it, and puts the copies behind it.
const COPY_THE_FIRST: &str = "\
    local prefix, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
    for id = first, last do
      redis.call('COPY', prefix .. '1', prefix .. id)
      redis.call('LPUSH', prefix .. 'wait', id)
    end
    redis.call('SET', prefix .. 'id', last)";

/// A queue in which that many jobs wait, `1` before all others.
async fn start_with(jobs: usize) -> (Redis, BullQueue, MultiplexedConnection) {
    let (server, queue) = start().await;
    assert_eq!(queue.add(&data("q")).await.unwrap(), "1");
    let mut redis = connect(&server).await;
    // In parts, each of which is done well within the client's limit of half a second.
    for first in (2..=jobs).step_by(2_000) {
        let mut copy = redis::cmd("EVAL");
        let last = jobs.min(first + 1_999);
        copy.arg(COPY_THE_FIRST).arg(0).arg("bull:agent-tasks:").arg(first).arg(last);
        let _: redis::Value = copy.query_async(&mut redis).await.unwrap();
    }
    assert_eq!(queue.depth().await.unwrap().waiting, jobs as u64);
    // Somebody else looks for stalled jobs, so that chance does not decide who counts that.
    let election = "agent-host:agent-tasks:checked";
    let _: () = redis::cmd("SET").arg(election).arg(1).query_async(&mut redis).await.unwrap();
    (server, queue, redis)
}

async fn claim(queue: &dyn JobQueue) -> Claim {
    queue.claim("worker", PATIENCE).await.unwrap().expect("a job to take")
}

/// Ends that job and claims the next one, with it or after it.
async fn end_and_claim(queue: &BullQueue, claimed: &Claim) -> Result<Claim, QueueError> {
    match queue.settle_and_claim(claimed, &completed("1"), "worker").await? {
        Some(next) => Ok(next),
        None => Ok(claim(queue).await),
    }
}

/// A few jobs from one end to the other, one more that is added, and the newest one looked at.
async fn work(queue: &BullQueue, newest: &str) {
    let mut claimed = claim(queue).await;
    for _ in 0..COUNTED {
        assert_eq!(queue.renew(&claimed).await, Ok(Renewal::Held));
        assert_eq!(queue.read(newest).await.unwrap().expect("it waits").status, JobStatus::Waiting);
        claimed = end_and_claim(queue, &claimed).await.unwrap();
    }
    queue.settle(&claimed, &AttemptEnd::HANDED_BACK).await.unwrap();
    queue.add(&data("q")).await.unwrap();
    queue.depth().await.unwrap();
}

/// What that much work costs Redis.
#[derive(Debug)]
struct Cost {
    /// Sent by clients, and carried out by their scripts.
    commands: usize,
    operations: usize,
    bytes: i64,
    /// How much more memory is used after it.
    memory: i64,
}

async fn cost(jobs: usize) -> Cost {
    let (server, queue, mut redis) = start_with(jobs).await;
    let newest = jobs.to_string();
    // Loads the scripts. Bytes are counted before somebody listens, who is sent bytes as well.
    work(&queue, &newest).await;
    let before = [info(&mut redis, "memory", "used_memory").await, sent(&mut redis).await];
    work(&queue, &newest).await;
    let after = [info(&mut redis, "memory", "used_memory").await, sent(&mut redis).await];
    let mut monitor: Monitor = server.monitor().await;
    monitor.commands().await;
    work(&queue, &newest).await;
    let commands = monitor.commands().await;
    for search in ["LPOS", "LRANGE", "KEYS", "SCAN", "SORT"] {
        assert!(!commands.of_scripts.iter().any(|name| name == search), "{search}: {commands:?}");
    }
    Cost {
        commands: commands.of_clients.len(),
        operations: commands.of_scripts.len(),
        memory: after[0] - before[0],
        bytes: after[1] - before[1],
    }
}

/// How many bytes Redis has sent to anybody.
async fn sent(redis: &mut MultiplexedConnection) -> i64 {
    info(redis, "stats", "total_net_output_bytes").await
}

async fn info(redis: &mut MultiplexedConnection, section: &str, name: &str) -> i64 {
    let info: String = redis::cmd("INFO").arg(section).query_async(redis).await.unwrap();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("Redis tells {name}"))
}

#[tokio::test]
async fn a_job_of_a_long_backlog_costs_redis_what_one_of_a_short_one_costs() {
    // Short, and still longer than what is worked off.
    let few = cost(FEW * COUNTED).await;
    let many = cost(BACKLOG).await;
    // Every second that passes meanwhile is one question more whether it is time to look for stalled jobs.
    let seconds = 5;
    assert!(many.commands <= few.commands + seconds, "{many:?}, {few:?}");
    assert!(many.operations <= few.operations + seconds, "{many:?}, {few:?}");
    // Answers carry longer ids with a backlog and are otherwise equal.
    assert!(many.bytes <= few.bytes * 3 / 2, "{many:?}, {few:?}");
    // The backlog takes more than 20 MiB. A job that has ended is a result and an event more.
    assert!(many.memory < 1 << 20, "{many:?}, {few:?}");
}

#[tokio::test]
async fn a_hundred_who_wait_for_jobs_of_a_long_backlog_ask_nothing_until_these_end() {
    let (server, queue, _redis) = start_with(BACKLOG).await;
    let queue = Arc::new(queue);
    let jobs = Jobs::new(queue.clone());
    let _following = Task::begin({
        let jobs = jobs.clone();
        async move { jobs.follow_changes().await }
    });
    let wait = |id: usize| {
        let jobs = jobs.clone();
        Task::begin(async move { jobs.read("u1", &id.to_string(), PATIENCE * 2).await })
    };
    let waiters: Vec<_> = (1..=WAITERS).map(wait).collect();
    let mut monitor = server.monitor().await;
    // Polling, they would ask two hundred times in each second.
    eventually("a second in which nobody asks", async || {
        monitor.commands().await;
        sleep(Duration::from_secs(1)).await;
        (scripts(&mut monitor).await == 0).then_some(())
    })
    .await;

    let mut claimed = claim(&*queue).await;
    for _ in 0..WAITERS {
        claimed = end_and_claim(&queue, &claimed).await.unwrap();
    }
    for (number, waiter) in waiters.into_iter().enumerate() {
        let job = waiter.ended().await.unwrap().expect("their job");
        assert_eq!((job.id, job.status), ((number + 1).to_string(), JobStatus::Completed));
    }
    // Each job is ended once and looked at once, and the first one was claimed. A few seconds may pass
    // meanwhile.
    let asked = scripts(&mut monitor).await;
    assert!(asked <= 2 * WAITERS + 30, "{asked} for {WAITERS} jobs and those who waited for them");
}

/// How many scripts clients called since this was asked last.
async fn scripts(monitor: &mut Monitor) -> usize {
    let commands = monitor.commands().await.of_clients;
    commands.iter().filter(|name| name.starts_with("EVAL")).count()
}

/// What all programs have read of the table of jobs, as PostgreSQL counts it: by a scan, and by an index.
const ROWS_READ: &str = "\
    SELECT (seq_tup_read + COALESCE(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables WHERE relname = 'jobs'";

#[tokio::test]
async fn a_claim_from_a_long_backlog_in_postgres_reads_a_few_rows() {
    let database = Database::postgres().await;
    // Makes the tables.
    drop(open_queue_of(&database).await);
    database
        .execute(
            "INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at) \
             SELECT lpad(number::text, 32, '0'), 'run-' || number, 'u1', 'q', 'waiting', ms, ms \
             FROM generate_series(1, 100000) AS number, clock; \
             ANALYZE jobs",
        )
        .await;
    let mut behind = PgConnection::connect(&database.url()).await.unwrap();
    let mut rows_read =
        async || -> i64 { sqlx::query_scalar(ROWS_READ).fetch_one(&mut behind).await.unwrap() };
    let before = rows_read().await;

    let pool = database.pool();
    let (queue, writer) = SqlQueue::new(pool.clone());
    let writing = Task::begin(writer.run());
    for number in 1..=COUNTED {
        let claimed = claim(&queue).await;
        assert_eq!(claimed.job_id, format!("{number:032}"), "in their order");
        assert_eq!(queue.renew(&claimed).await, Ok(Renewal::Held));
        queue.settle(&claimed, &completed("1")).await.unwrap();
    }
    // PostgreSQL's processes tell what they have counted when they end.
    drop(writing);
    pool.close().await;
    let read = eventually("PostgreSQL to tell what was read", async || {
        let read = rows_read().await - before;
        (read > 0).then_some(read)
    })
    .await;
    assert!(read < 50 * COUNTED as i64, "{read} rows for {COUNTED} jobs");
}
