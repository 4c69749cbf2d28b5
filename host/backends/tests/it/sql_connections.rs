//! Connections to PostgreSQL: how often a statement waits for the server, and what becomes of connections
//! that break.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::ports::key_value::{KeyValueStore as _, Space};
use agent_core::ports::{Epoch, JobQueue as _, Journal as _, Renewal};
use agent_core::words::{Event, JobData, JobStatus};
use backends::sql::{SqlKeyValues, SqlPool, SqlQueue, SqlRuns};
use futures::FutureExt as _;
use futures::future::join_all;
use sqlx::{Connection as _, PgConnection};
use test_servers::{PATIENCE, Postgres, Proxy, Task, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::sql::{Database, migrated, open_queue_of, open_runs_of};

/// Stands before a server and counts how often the one side waits for the other.
struct RoundTrips {
    url: String,
    count: Arc<AtomicUsize>,
    _serving: Task<()>,
}

impl RoundTrips {
    async fn before(url: &str) -> Self {
        let (before, rest) = url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = format!("{before}@{}/{database}", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let (server, counted) = (server.to_owned(), count.clone());
        let serving = Task::begin(async move {
            let mut carried = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                carried.push(Task::begin(carry(client, server, counted.clone())));
            }
        });
        Self { url: own, count, _serving: serving }
    }

    /// Since it was asked last.
    fn take(&self) -> usize {
        self.count.swap(0, Ordering::SeqCst)
    }
}

/// A round trip is what the server says after the client has said something.
async fn carry(mut client: TcpStream, mut server: TcpStream, count: Arc<AtomicUsize>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut asked, mut said) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut is_waiting = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                is_waiting = true;
                if server.write_all(&asked[..length]).await.is_err() { return }
            }
            read = server.read(&mut said) => {
                let Ok(length @ 1..) = read else { return };
                if std::mem::take(&mut is_waiting) {
                    count.fetch_add(1, Ordering::SeqCst);
                }
                if client.write_all(&said[..length]).await.is_err() { return }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_one_round_trip() {
    let database = Database::postgres().await;
    let round_trips = RoundTrips::before(&database.url()).await;
    let pool = migrated(SqlPool::postgres(&round_trips.url).unwrap()).await;
    let (runs, writing) = SqlRuns::new(pool.clone());
    let _writing = Task::begin(writing.run());
    let (queue, adding) = SqlQueue::new(pool);
    let _adding = Task::begin(adding.run());
    // The first time a statement is also prepared, once on each connection, and there is one.
    for round in 0..3_u64 {
        let id = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
        assert!(queue.read(&id).await.unwrap().is_some());
        runs.append("run_1", Epoch(1), round, &[Event::Cancelled]).await.unwrap();
        assert_eq!(runs.read("run_1", round).await.unwrap().len(), 1);
        let taken = round_trips.take();
        if round > 0 {
            assert_eq!(taken, 4, "in round {round}");
        }
    }
}

/// Whatever the server does to the sessions of others.
async fn end_sessions(database: &Database) {
    let sessions = "SELECT COUNT(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let ended = database.number(sessions).await;
    assert!(ended > 0, "there were sessions to end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_ended_fails_nobody_whose_statement_may_be_repeated() {
    let database = Database::postgres().await;
    let (queue, _adding) = open_queue_of(&database).await;
    let (runs, _writing) = open_runs_of(&database).await;
    let values = SqlKeyValues::new(database.pool());
    let space = Space { component: "c", user: None, quota: 1 << 20 };
    queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    let claim = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
    for number in 0..5_u64 {
        // Several connections, all of which are ended.
        for read in join_all((0..5).map(|_| queue.read(&claim.job_id))).await {
            assert!(read.unwrap().is_some());
        }
        values.set(space, "key", b"value", None).await.unwrap();
        end_sessions(&database).await;
        assert!(queue.read(&claim.job_id).await.unwrap().is_some());
        assert_eq!(queue.renew(&claim).await.unwrap(), Renewal::Held);
        runs.append("run_1", Epoch(1), number, &[Event::Cancelled]).await.unwrap();
        assert_eq!(values.add(space, "count", 1).await.unwrap(), i64::try_from(number).unwrap() + 1);
        queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    }
    assert_eq!(queue.depth().await.unwrap().waiting, 5, "none was added twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_tools_that_wait_for_one_space_keep_no_heartbeat_from_a_connection() {
    let database = Database::postgres().await;
    let pool = migrated(database.pool()).await;
    let (queue, adding) = SqlQueue::new(pool.clone());
    let _adding = Task::begin(adding.run());
    queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    let claim = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
    let (values, space) = (SqlKeyValues::new(pool), Space { component: "c", user: None, quota: 1 << 20 });
    values.add(space, "count", 1).await.unwrap();
    let mut other = PgConnection::connect(&database.url()).await.unwrap();
    let mut holder = other.begin().await.unwrap();
    sqlx::raw_sql("UPDATE tool_spaces SET bytes = bytes").execute(&mut *holder).await.unwrap();
    // More than there are connections.
    let mut writes = Box::pin(join_all((0..25).map(|_| values.add(space, "count", 1))));
    assert!(timeout(Duration::from_millis(500), &mut writes).await.is_err());
    assert_eq!(queue.renew(&claim).await, Ok(Renewal::Held));
    holder.rollback().await.unwrap();
    assert!(writes.await.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_nobody_waits_for_any_more_cost_the_pool_nothing() {
    let database = Database::postgres().await;
    let (queue, _adding) = open_queue_of(&database).await;
    let id = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    let mut other = PgConnection::connect(&database.url()).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    // More than there are connections, one of them with its statement under way, the others on their way.
    for _ in 0..50 {
        assert!(Box::pin(queue.read(&id)).as_mut().now_or_never().is_none());
    }
    lock.rollback().await.unwrap();
    assert!(queue.read(&id).await.unwrap().is_some());
}

/// PostgreSQL, and the queue behind a proxy.
async fn start_behind_a_proxy() -> (Postgres, Proxy, Arc<SqlQueue>, Task<()>) {
    let server = Postgres::start().await;
    let proxy = Proxy::before(server.address()).await;
    let url = server.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let (queue, adding) = SqlQueue::new(migrated(SqlPool::postgres(&url).unwrap()).await);
    (server, proxy, Arc::new(queue), Task::begin(adding.run()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_waited_for_once() {
    let (server, mut proxy, queue, _adding) = start_behind_a_proxy().await;
    let id = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    for read in join_all((0..10).map(|_| queue.read(&id))).await {
        assert!(read.unwrap().is_some());
    }
    proxy.stall();
    queue.read(&id).await.unwrap_err();
    proxy.pass().await;
    // The others that were kept are not tried one after the other.
    assert!(queue.read(&id).await.unwrap().is_some());
    drop(server);
    tokio::time::timeout(Duration::from_secs(30), queue.read(&id)).await.unwrap().unwrap_err();
}

/// After a failover a name may still lead to the server that was the primary one. What connects to it then is
/// refused every write, and must not be kept for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_server_that_is_read_only_are_not_kept() {
    let server = Postgres::start().await;
    SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
    // The operator's session stays as it was made, and so do those that are made while the setting is on.
    let mut operator = PgConnection::connect(&server.url()).await.unwrap();
    let set = "ALTER DATABASE postgres SET default_transaction_read_only = on";
    sqlx::raw_sql(set).execute(&mut operator).await.unwrap();
    let (queue, adding) = SqlQueue::new(SqlPool::postgres(&server.url()).unwrap());
    let _adding = Task::begin(adding.run());
    let job = JobData::new("2 + 3", "u1");
    for read in join_all((0..5).map(|_| queue.read("1"))).await {
        assert!(read.unwrap().is_none(), "several connections are made");
    }
    let error = queue.add(&job).await.unwrap_err();
    assert!(error.to_string().contains("the database is read-only"), "{error}");
    assert!(queue.read("1").await.unwrap().is_none(), "one more is made");
    let reset = "ALTER DATABASE postgres RESET default_transaction_read_only";
    sqlx::raw_sql(reset).execute(&mut operator).await.unwrap();
    queue.add(&job).await.unwrap();
    let claim = queue.claim("worker", Duration::ZERO).await.unwrap().expect("a job");
    assert_eq!(queue.renew(&claim).await.unwrap(), Renewal::Held);
}

/// The lease runs in the database while the answer is under way: a worker that counted from the answer would
/// take the job for its own when another one already has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_counted_from_before_it_was_asked_for_however_late_the_answer_comes() {
    let (server, mut proxy, queue, _adding) = start_behind_a_proxy().await;
    let (peer, _) = SqlQueue::new(SqlPool::postgres(&server.url()).unwrap());
    queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    let id = queue.add(&JobData::new("3 + 4", "u1")).await.unwrap();
    // The first one prepares the statement, which waits for an answer of its own.
    assert!(queue.claim("worker", Duration::ZERO).await.unwrap().is_some());
    proxy.stall_answers();
    let claiming = queue.clone();
    let claiming = Task::begin(async move { claiming.claim("worker", Duration::ZERO).await });
    eventually("the job to be leased", async || {
        let job = peer.read(&id).await.unwrap()?;
        (job.status == JobStatus::Active).then_some(())
    })
    .await;
    let leased = Instant::now().into_std();
    sleep(Duration::from_millis(300)).await;
    proxy.pass().await;
    let claim = claiming.ended().await.unwrap().expect("a job");
    assert!(claim.leased_at <= leased, "{:?} after it was leased", claim.leased_at - leased);
}

/// Waited for as long as other statements are, a heartbeat would end after the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_in_time_although_the_network_has_forgotten_every_connection() {
    let (_server, proxy, queue, _adding) = start_behind_a_proxy().await;
    let id = queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
    let claim = queue.claim("worker", Duration::ZERO).await.unwrap().expect("a job");
    for read in join_all((0..5).map(|_| queue.read(&id))).await {
        assert!(read.unwrap().is_some());
    }
    proxy.forget();
    let begun = Instant::now();
    assert_eq!(queue.renew(&claim).await.unwrap(), Renewal::Held);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// With nothing else to find the job by: a look has just been made, and the next one would be in a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_another_process_adds_or_hands_back_wakes_a_worker() {
    let database = Database::postgres().await;
    let (queue, _adding) = open_queue_of(&database).await;
    let (peer, _peer_adding) = open_queue_of(&database).await;
    eventually("a job to be announced", async || {
        assert_eq!(queue.claim("worker", Duration::ZERO).await.unwrap(), None);
        let began = tokio::time::Instant::now();
        let claiming = queue.clone();
        let claiming = Task::begin(async move { claiming.claim("worker", PATIENCE).await });
        peer.add(&JobData::new("2 + 3", "u1")).await.unwrap();
        let claim = claiming.ended().await.unwrap().unwrap();
        let end = agent_core::ports::AttemptEnd::Cancelled;
        queue.settle(&claim, &end).await.unwrap();
        (began.elapsed() < Duration::from_millis(500)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_conflicts_is_looked_up_at_once() {
    let database = Database::postgres().await;
    let round_trips = RoundTrips::before(&database.url()).await;
    let (runs, writing) = SqlRuns::new(migrated(SqlPool::postgres(&round_trips.url).unwrap()).await);
    let ids: Vec<_> = (0..300).map(|number| format!("run_{number}")).collect();
    let append = |event: Event| {
        let runs = &runs;
        join_all(ids.iter().map(move |id| {
            let event = event.clone();
            async move { runs.append(id, Epoch(1), 0, &[event]).await }
        }))
    };
    let mut first = Box::pin(append(Event::Cancelled));
    assert!(first.as_mut().now_or_never().is_none());
    let _writing = Task::begin(writing.run());
    assert!(first.await.iter().all(Result::is_ok));
    round_trips.take();
    assert!(append(Event::Cancelled).await.iter().all(Result::is_ok), "the same events are kept already");
    assert!(append(Event::HandedBack).await.iter().all(Result::is_err));
    // Each batch is one statement that inserts and one that looks; how many batches there are depends on who
    // comes first.
    let taken = round_trips.take();
    assert!(taken < 100, "{taken} round trips for 600 conflicts");
}
