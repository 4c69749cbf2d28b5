//! Group commit: how many commits there are, and who hears what of them.

use agent_core::ports::{
    AttemptEnd, Claim, Epoch, JobQueue as _, Journal as _, JournalError, QueueError, Renewal, RunStore as _,
};
use agent_core::testing::says;
use agent_core::words::{Event, JobData, JobStatus, RunOutcome, RunRecord};
use backends::sql::{SqlPool, SqlQueue, SqlRuns};
use futures::future::join_all;
use futures::{FutureExt as _, join};
use test_servers::{PATIENCE, Postgres, Task, eventually, within};

use crate::contract::queue::completed;
use crate::sql::{Database, migrated, open_queue_of, open_runs_of};

/// Refuses every write of the run `run_bad`.
const REFUSE_IN_SQLITE: &str = "CREATE TRIGGER refuse BEFORE INSERT ON run_events \
    WHEN NEW.run_id = 'run_bad' BEGIN SELECT RAISE(ABORT, 'no'); END";

/// Refuses every job of the user `u_bad`.
const REFUSE_JOBS_IN_SQLITE: &str = "CREATE TRIGGER refuse_jobs BEFORE INSERT ON jobs \
    WHEN NEW.user_id = 'u_bad' BEGIN SELECT RAISE(ABORT, 'no'); END";

/// Refuses every job of the user `u_bad`.
const REFUSE_JOBS_IN_POSTGRES: &str = "ALTER TABLE jobs ADD CHECK (user_id <> 'u_bad')";

/// Refuses every event of the run `run_bad`, on PostgreSQL.
const REFUSE_IN_POSTGRES: &str = "ALTER TABLE run_events ADD CHECK (run_id <> 'run_bad')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_appends_share_few_commits() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (runs, _writing) = open_runs_of(&database).await;
        let before = Commits::of(&database).await.0;
        append_a_thousand(&runs).await;
        let commits = Commits::of(&database).await.0 - before;
        assert!((1..=100).contains(&commits), "{commits} commits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_jobs_share_few_commits() {
    let database = Database::postgres().await;
    let (queue, _adding) = open_queue_of(&database).await;
    let job = JobData::new("2 + 3", "u1");
    join_all((0..1000).map(|_| queue.add(&job))).await.into_iter().for_each(|id| drop(id.unwrap()));
    let commits = database.number("SELECT COUNT(DISTINCT xmin::text) FROM jobs").await;
    assert!((1..=100).contains(&commits), "{commits} commits");
    assert_eq!(queue.depth().await.unwrap().waiting, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_row_does_not_fail_the_others() {
    for (database, refuse) in
        [(Database::sqlite(), REFUSE_IN_SQLITE), (Database::postgres().await, REFUSE_IN_POSTGRES)]
    {
        let pool = migrated(database.pool()).await;
        database.execute(refuse).await;
        let (runs, writing) = SqlRuns::new(pool);
        let ids = ["run_1", "run_bad", "run_2", "run_1"];
        // The appends wait together before anybody writes.
        let appends = ids
            .iter()
            .zip([0, 0, 0, 1])
            .map(|(id, number)| runs.append(id, Epoch(1), number, &[Event::Cancelled]));
        let mut answers = Box::pin(join_all(appends));
        assert!(answers.as_mut().now_or_never().is_none());
        let _writing = Task::begin(writing.run());
        let answers = answers.await;
        assert!(matches!(answers[1], Err(JournalError::Store { .. })), "{answers:?}");
        assert_eq!([&answers[0], &answers[2], &answers[3]], [&Ok(()); 3]);
        assert_eq!(runs.read("run_1", 0).await.unwrap().len(), 2);
        assert_eq!(runs.read("run_bad", 0).await.unwrap(), vec![]);
    }
}

/// What is handed in at one moment, on a runtime of one thread, is there before anybody writes.
#[tokio::test]
async fn what_a_job_and_its_run_write_at_the_same_time_is_one_commit() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let stores = Stores::open(&database).await;
        let mut claims = Vec::new();
        for _ in 0..2 {
            stores.queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
            claims.push(stores.queue.claim("worker", PATIENCE).await.unwrap().unwrap());
        }
        let [claim, held] = &claims[..] else { unreachable!() };
        let before = Commits::of(&database).await;
        let (job, completed) = (JobData::new("3 + 3", "u1"), completed("1"));
        let record = record(&claim.run_id);
        let (renewed, ended, stored, other, added) = join!(
            stores.queue.renew(held),
            stores.queue.settle(claim, &completed),
            stores.runs.append_and_save(claim.epoch, 0, &[Event::Cancelled], &record),
            stores.runs.append("run_other", Epoch(1), 0, &[Event::Cancelled]),
            stores.queue.add(&job),
        );
        assert_eq!((renewed, ended, stored, other), (Ok(Renewal::Held), Ok(()), Ok(()), Ok(())));
        let id = added.unwrap();
        before.has_one_more(&database).await;
        assert_eq!(stores.queue.read(&claim.job_id).await.unwrap().unwrap().status, JobStatus::Completed);
        assert_eq!(stores.queue.read(&id).await.unwrap().unwrap().status, JobStatus::Waiting);
        assert_eq!(stores.runs.find(&claim.run_id).await.unwrap(), Some(record));
        assert_eq!(stores.runs.read(&claim.run_id, 0).await.unwrap(), [Event::Cancelled]);
    }
}

#[tokio::test]
async fn ends_and_the_claims_of_the_next_jobs_are_one_commit_and_no_claim_writes_in_vain() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let stores = Stores::open(&database).await;
        let mut claims = Vec::new();
        for number in 0..5 {
            stores.queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
            if number < 3 {
                claims.push(stores.queue.claim("worker", PATIENCE).await.unwrap().unwrap());
            }
        }
        let before = Commits::of(&database).await;
        let completed = completed("1");
        let end = |claim| stores.queue.settle_and_claim(claim, &completed, "worker");
        let answers = join!(end(&claims[0]), end(&claims[1]), end(&claims[2]));
        let claimed = [answers.0, answers.1, answers.2].into_iter().filter_map(Result::unwrap);
        assert_eq!(claimed.count(), 2, "as many as there were");
        match &database {
            Database::Sqlite(_) => before.has_one_more(&database).await,
            Database::Postgres { .. } => {
                let commits = database.number("SELECT COUNT(DISTINCT xmin::text) FROM jobs").await;
                assert_eq!(commits, 1, "which wrote all five");
            }
        }
        let before = Commits::of(&database).await;
        assert_eq!(stores.queue.claim("worker", std::time::Duration::ZERO).await.unwrap(), None);
        assert_eq!(Commits::of(&database).await.0, before.0);
    }
}

/// The caller of the claim was not told: it is gone, or the connection was.
#[tokio::test]
async fn a_job_that_was_claimed_for_nobody_is_given_when_the_end_is_told_again() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let stores = Stores::open(&database).await;
        for _ in 0..3 {
            stores.queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
        }
        let first = stores.queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        let completed = completed("1");
        let end = || stores.queue.settle_and_claim(&first, &completed, "worker");
        assert!(end().now_or_never().is_none(), "it has been handed in");
        eventually("it to be committed", async || {
            let depth = stores.queue.depth().await.unwrap();
            ((depth.active, depth.waiting) == (1, 1)).then_some(())
        })
        .await;
        assert_eq!(stores.queue.read(&first.job_id).await.unwrap().unwrap().status, JobStatus::Completed);
        database.execute("UPDATE jobs SET due_at = due_at - 5000 WHERE status = 'active'").await;
        let next = end().await.unwrap().expect("the job that was claimed with it");
        assert_eq!((stores.queue.depth().await.unwrap().waiting, next.earlier.lost), (1, 0));
        // The lease of the job claimed with it counts from now.
        let left = "SELECT COUNT(*) FROM jobs, clock WHERE status = 'active' AND due_at > ms + 3000";
        if let Database::Postgres { .. } = &database {
            assert_eq!(database.number(left).await, 1);
        }
        // By a worker that has told of another end, nothing is found.
        let failed = AttemptEnd::Failed { error: "no".into(), retry: false };
        let lost = QueueError::LeaseLost { job_id: first.job_id.clone() };
        assert_eq!(stores.queue.settle_and_claim(&first, &failed, "worker").await, Err(lost));
        stores.queue.settle(&next, &completed).await.unwrap();
        assert_eq!(end().await, Ok(None), "its claim has ended too");
    }
}

#[tokio::test]
async fn what_a_run_or_a_job_is_refused_does_no_harm_to_the_other() {
    for (database, of_run, of_job) in [
        (Database::sqlite(), REFUSE_IN_SQLITE, REFUSE_JOBS_IN_SQLITE),
        (Database::postgres().await, REFUSE_IN_POSTGRES, REFUSE_JOBS_IN_POSTGRES),
    ] {
        let stores = Stores::open(&database).await;
        let add = async |user| stores.queue.add(&JobData::new("2 + 3", user)).await;
        let append = async |run_id| stores.runs.append(run_id, Epoch(1), 0, &[Event::Cancelled]).await;
        add("u1").await.unwrap();
        let claim = stores.queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        database.execute(of_run).await;
        database.execute(of_job).await;
        let completed = completed("1");
        let (bad_run, job, run, bad_job, ended) = join!(
            append("run_bad"),
            add("u2"),
            append("run_1"),
            add("u_bad"),
            stores.queue.settle(&claim, &completed)
        );
        assert!(matches!(bad_run, Err(JournalError::Store { .. })), "{bad_run:?}");
        assert!(matches!(bad_job, Err(QueueError::Store { .. })), "{bad_job:?}");
        assert_eq!((run, ended), (Ok(()), Ok(())));
        assert!(stores.queue.read(&job.unwrap()).await.unwrap().is_some());
        assert_eq!(stores.runs.read("run_1", 0).await.unwrap(), [Event::Cancelled]);
        assert_eq!(stores.runs.read("run_bad", 0).await.unwrap(), vec![]);
        assert_eq!(stores.queue.depth().await.unwrap().waiting, 1, "the job of u2 alone");
    }
}

#[tokio::test]
async fn a_lease_or_an_epoch_that_was_lost_does_no_harm_to_what_is_written_with_it() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let stores = Stores::open(&database).await;
        stores.queue.add(&JobData::new("2 + 3", "u1")).await.unwrap();
        let claim = stores.queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        stores.runs.append("run_taken", Epoch(2), 0, &[Event::Cancelled]).await.unwrap();
        let zombie = Claim { token: "of another claim".into(), ..claim.clone() };
        let before = Commits::of(&database).await;
        let (completed, taken) = (completed("1"), record("run_taken"));
        let (lost, fenced, ended, stored) = join!(
            stores.queue.renew(&zombie),
            stores.runs.append_and_save(Epoch(1), 1, &[Event::Cancelled], &taken),
            stores.queue.settle(&claim, &completed),
            stores.runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]),
        );
        assert_eq!(lost, Ok(Renewal::Lost));
        assert_eq!(fenced, Err(JournalError::Fenced { run_id: "run_taken".into() }));
        assert_eq!((ended, stored), (Ok(()), Ok(())));
        before.has_one_more(&database).await;
        assert_eq!(stores.runs.find("run_taken").await.unwrap(), None);
        let cancelled = AttemptEnd::Cancelled;
        let (late, again, added) = join!(
            stores.queue.settle(&claim, &cancelled),
            stores.queue.settle(&claim, &completed),
            stores.runs.append("run_1", Epoch(1), 1, &[Event::Cancelled])
        );
        assert_eq!(late, Err(QueueError::LeaseLost { job_id: claim.job_id.clone() }));
        assert_eq!((again, added), (Ok(()), Ok(())));
    }
}

/// Stores of one process, which write by one lane.
struct Stores {
    queue: SqlQueue,
    runs: SqlRuns,
    _writing: [Task<()>; 2],
}

impl Stores {
    async fn open(database: &Database) -> Self {
        let pool = migrated(database.pool()).await;
        let (runs, writing) = SqlRuns::new(pool.clone());
        let (queue, adding) = SqlQueue::new(pool);
        Self { queue, runs, _writing: [Task::begin(writing.run()), Task::begin(adding.run())] }
    }
}

/// Commits so far: of SQLite all, of PostgreSQL those that a row shows.
struct Commits(i64);

impl Commits {
    async fn of(database: &Database) -> Self {
        Self(match database {
            Database::Sqlite(_) => i64::try_from(commits_in_log(database)).unwrap(),
            Database::Postgres { .. } => {
                let rows = "SELECT COUNT(DISTINCT number) FROM (SELECT xmin::text AS number FROM jobs \
                            UNION ALL SELECT xmin::text FROM run_events UNION ALL SELECT xmin::text FROM run_records) \
                            AS written";
                database.number(rows).await
            }
        })
    }

    /// There was one more, which wrote the row of a job anew: that does not show its last commit any more.
    async fn has_one_more(self, database: &Database) {
        let seen = i64::from(matches!(database, Database::Sqlite(_)));
        assert_eq!(Self::of(database).await.0, self.0 + seen);
    }
}

fn record(run_id: &str) -> RunRecord {
    agent_core::testing::record(run_id, RunOutcome::Running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_number_appended_twice_in_one_batch_is_taken_once() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (runs, writing) = SqlRuns::new(migrated(database.pool()).await);
        let replies = ["a", "b", "a"].map(|text| Event::from(says(text)));
        let mut answers = Box::pin(join_all(
            replies.iter().map(|event| runs.append("run_1", Epoch(1), 0, std::slice::from_ref(event))),
        ));
        assert!(answers.as_mut().now_or_never().is_none());
        let _writing = Task::begin(writing.run());
        let conflict = JournalError::Conflict { run_id: "run_1".into(), sequence: 0 };
        assert_eq!(answers.await, [Ok(()), Err(conflict), Ok(())]);
        assert_eq!(runs.read("run_1", 0).await.unwrap(), replies[..1]);
    }
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_written() {
    let database = Database::sqlite();
    let (runs, writing) = SqlRuns::new(migrated(database.pool()).await);
    for sequence in 0..3 {
        assert!(runs.append("run_1", Epoch(1), sequence, &[Event::Cancelled]).now_or_never().is_none());
    }
    let writing = Task::begin(writing.run());
    runs.append("run_2", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    assert_eq!(runs.read("run_1", 0).await.unwrap().len(), 3);
    assert!(runs.append("run_1", Epoch(1), 3, &[Event::Cancelled]).now_or_never().is_none());
    drop(runs);
    writing.ended().await;
    assert_eq!(
        open_runs_of(&database).await.0.read("run_1", 0).await.unwrap().len(),
        4,
        "not before it is done"
    );
}

#[tokio::test]
async fn a_writer_that_is_gone_keeps_nobody_waiting() {
    let database = Database::sqlite();
    let pool = migrated(database.pool()).await;
    let (runs, writing) = SqlRuns::new(pool.clone());
    let mut waiting = Box::pin(runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(writing);
    let stopped = JournalError::Store { detail: "its writer broke off or has ended".into() };
    assert_eq!(within("the answer", waiting).await, Err(stopped.clone()));
    assert_eq!(
        within("the answer", runs.append("run_1", Epoch(1), 0, &[Event::Cancelled])).await,
        Err(stopped)
    );
    let (queue, adding) = SqlQueue::new(pool);
    drop(adding);
    let job = JobData::new("2 + 3", "u1");
    within("the answer", queue.add(&job)).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_outlives_the_database() {
    let mut server = Postgres::start().await;
    let (runs, writing) = SqlRuns::new(migrated(SqlPool::postgres(&server.url()).unwrap()).await);
    let _writing = Task::begin(writing.run());
    runs.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    server.pause().await;
    let answers =
        join_all((1..10).map(|number| runs.append("run_1", Epoch(1), number, &[Event::Cancelled]))).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, JournalError::Store { .. }), "{error:?}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(runs.find("run_1").await.is_err());
    server.resume().await;
    eventually("the store to write again", async || {
        runs.append("run_1", Epoch(1), 1, &[Event::Cancelled]).await.ok()
    })
    .await;
    assert_eq!(runs.read("run_1", 0).await.unwrap().len(), 2);
}

async fn append_a_thousand(runs: &SqlRuns) {
    let ids: Vec<_> = (0..1000).map(|number| format!("run_{number}")).collect();
    let answers = join_all(ids.iter().map(|id| runs.append(id, Epoch(1), 0, &[Event::Cancelled]))).await;
    answers.into_iter().for_each(Result::unwrap);
    for id in &ids {
        assert_eq!(runs.read(id, 0).await.unwrap(), [Event::Cancelled]);
    }
}

/// Commits that stand in SQLite's write-ahead log: frames whose header says how large the file is after them.
/// <https://www.sqlite.org/fileformat2.html#walformat>
fn commits_in_log(database: &Database) -> usize {
    const LOG_HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let path = database.url().replace("sqlite://", "") + "-wal";
    let log = std::fs::read(path).unwrap();
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    let frames = log[LOG_HEADER..].chunks_exact(FRAME_HEADER + page);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}
