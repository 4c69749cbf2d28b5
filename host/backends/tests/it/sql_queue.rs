//! The queue in the database: load, workers that keep dying, and a server that goes away.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{
    AttemptEnd, ChangedJobs, EarlierClaims, Epoch, JobQueue, Journal as _, JournalError, QueueError, Renewal,
};
use agent_core::words::{CancelOutcome, Event, JobData, JobStatus, OpenKinds};
use backends::sql::{SqlPool, SqlQueue};
use futures::future::join_all;
use futures::{FutureExt as _, join};
use test_servers::{PATIENCE, Postgres, Task, eventually};
use tokio::time::Instant;

use crate::contract::queue::completed;
use crate::sql::{Database, migrated, open_queue_of, open_runs_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_who_add_and_five_who_claim_are_never_told_of_locks_on_sqlite() {
    add_and_claim(&Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_who_add_and_five_who_claim_are_never_told_of_locks_on_postgres() {
    add_and_claim(&Database::postgres().await).await;
}

/// Whoever waits for a job is told, and does not poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_told_at_once_which_jobs_another_one_ends_on_postgres() {
    let database = Database::postgres().await;
    let (queue, _adding) = open_queue_of(&database).await;
    let (peer, _peer_adding) = open_queue_of(&database).await;
    let mut cursor = peer.changes(None).await.unwrap().expect("it tells").cursor;
    for cancels in [false, true] {
        let id = queue.add(&job("awaited")).await.unwrap();
        let begun = Instant::now();
        if cancels {
            assert_eq!(queue.cancel(&id).await.unwrap(), CancelOutcome::Done);
        } else {
            let claim = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
            queue.settle(&claim, &completed("1")).await.unwrap();
        }
        let changes = peer.changes(Some(&cursor)).await.unwrap().expect("it tells");
        assert_eq!(changes.jobs, ChangedJobs::These(vec![id]));
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        cursor = changes.cursor;
    }
    let (alone, _alone_adding) = open_queue_of(&Database::sqlite()).await;
    assert_eq!(alone.changes(None).await.unwrap(), None);
}

/// In two processes, and with runs being written to the same database.
async fn add_and_claim(database: &Database) {
    const EACH: usize = 4;
    let (queue, _adding) = open_queue_of(database).await;
    let (peer, _peer_adding) = open_queue_of(database).await;
    let (runs, _writing) = open_runs_of(database).await;
    let adders: Vec<_> = (0..50)
        .map(|adder| {
            let queue = Arc::clone(if adder % 2 == 0 { &queue } else { &peer });
            Task::begin(async move {
                let mut ids = Vec::new();
                for number in 0..EACH {
                    ids.push(queue.add(&job(&format!("{adder}.{number}"))).await.unwrap());
                }
                ids
            })
        })
        .collect();
    let takers: Vec<_> = (0..5)
        .map(|taker| {
            let (queue, runs) = (Arc::clone(if taker == 0 { &peer } else { &queue }), Arc::clone(&runs));
            Task::begin(async move {
                let mut ids = Vec::new();
                for _ in 0..50 * EACH / 5 {
                    let claim = queue.claim(&format!("worker {taker}"), PATIENCE).await.unwrap().unwrap();
                    assert_eq!(claim.earlier, EarlierClaims { are_none: true, lost: 0 });
                    runs.append(&claim.run_id, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
                    assert_eq!(queue.renew(&claim).await.unwrap(), Renewal::Held);
                    queue.settle(&claim, &completed("1")).await.unwrap();
                    ids.push(claim.job_id);
                }
                ids
            })
        })
        .collect();
    let added: HashSet<_> =
        join_all(adders.into_iter().map(Task::ended)).await.concat().into_iter().collect();
    let taken = join_all(takers.into_iter().map(Task::ended)).await.concat();
    assert_eq!(taken.len(), added.len(), "a job was taken twice");
    assert_eq!(taken.into_iter().collect::<HashSet<_>>(), added);
}

/// A failover to a replica that is behind, or a restore, while the worker of the claim still writes.
#[tokio::test]
async fn a_claim_after_one_that_the_database_has_forgotten_has_a_higher_epoch() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let (runs, _writing) = open_runs_of(&database).await;
        queue.add(&job("q")).await.unwrap();
        let first = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        runs.append(&first.run_id, first.epoch, 0, &[Event::Cancelled]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let forget = "UPDATE jobs SET claims = 0, status = 'waiting', worker = NULL, token = NULL, \
            due_at = due_at - 60000";
        database.execute(forget).await;
        let second = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        assert!(second.epoch > first.epoch, "{:?} behind {:?}", second.epoch, first.epoch);
        runs.append(&second.run_id, second.epoch, 1, &[Event::Cancelled]).await.unwrap();
        let late = runs.append(&first.run_id, first.epoch, 2, &[Event::Cancelled]).await;
        assert_eq!(late, Err(JournalError::Fenced { run_id: first.run_id }));
    }
}

#[tokio::test]
async fn a_job_that_kills_every_worker_fails_in_the_end() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let id = queue.add(&job("poison")).await.unwrap();
        // A second handle on the queue has leases that end as soon as nobody renews them.
        let (short_lived, _adding) = SqlQueue::new(database.pool());
        let short_lived = short_lived.with_lease(Duration::from_millis(10));
        let mut taken = 0;
        while short_lived.claim("doomed#1", Duration::from_secs(1)).await.unwrap().is_some() {
            taken += 1;
            assert!(taken <= 100, "it goes on for ever");
        }
        assert!(taken >= 10, "after {taken} deaths");
        let job = queue.read(&id).await.unwrap().unwrap();
        assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, 0));
        assert!(job.error.is_some_and(|error| error.contains("died")));
        assert!(job.finished_at.is_some());
    }
}

/// In SQLite they are one statement. Whoever makes it may be dropped.
#[tokio::test]
async fn reads_at_the_same_time_are_each_answered_with_their_own_job() {
    let database = Database::sqlite();
    let (queue, _adding) = open_queue_of(&database).await;
    let jobs: Vec<_> = (0..300).map(|number| job(&number.to_string())).collect();
    let added = join_all(jobs.iter().map(|job| queue.add(job))).await;
    let mut ids: Vec<_> = added.into_iter().map(Result::unwrap).collect();
    ids.extend(["none".to_owned(), ids[0].clone(), "\0".to_owned()]);
    let mut dropped = Box::pin(queue.read(&ids[0]));
    assert!(dropped.as_mut().now_or_never().is_none());
    let mut reads = Box::pin(join_all(ids.iter().map(|id| queue.read(id))));
    assert!(reads.as_mut().now_or_never().is_none());
    drop(dropped);
    let read = reads.await.into_iter().map(|job| job.unwrap().map(|job| job.id));
    let there = ids.iter().map(|id| (id.len() > 4).then(|| id.clone()));
    assert_eq!(read.collect::<Vec<_>>(), there.collect::<Vec<_>>());
    // Nothing that was committed before is missed.
    let (first, second) = join!(queue.read(&ids[0]), async {
        assert_eq!(queue.cancel(&ids[1]).await.unwrap(), CancelOutcome::Done);
        queue.read(&ids[1]).await
    });
    assert_eq!(first.unwrap().unwrap().status, JobStatus::Waiting);
    assert_eq!(second.unwrap().unwrap().status, JobStatus::Cancelled);
}

/// However many jobs wait, and end with others.
#[tokio::test]
async fn a_stalled_job_or_one_that_killed_enough_is_not_passed_over_by_claims_with_an_end() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let mut ids = Vec::new();
        for query in ["stalled", "held", "poison", "last"] {
            ids.push(queue.add(&job(query)).await.unwrap());
        }
        let died = queue.claim("doomed", PATIENCE).await.unwrap().unwrap();
        let held = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        assert_eq!([&died.job_id, &held.job_id], [&ids[0], &ids[1]]);
        database.execute("UPDATE jobs SET due_at = 0 WHERE query = 'stalled'").await;
        database.execute("UPDATE jobs SET losses = 20 WHERE query = 'poison'").await;
        assert_eq!(queue.settle_and_claim(&held, &completed("1"), "worker").await, Ok(None));
        assert_eq!(queue.read(&ids[1]).await.unwrap().unwrap().status, JobStatus::Completed);
        let stalled = queue.claim("worker", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((&stalled.job_id, stalled.earlier.lost), (&ids[0], 1));
        assert_eq!(
            queue.settle_and_claim(&stalled, &completed("1"), "worker").await,
            Ok(None),
            "it is poison"
        );
        let last = queue.claim("worker", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(last.job_id, ids[3]);
        assert_eq!(queue.read(&ids[2]).await.unwrap().unwrap().status, JobStatus::Failed);
    }
}

/// The run has to be ended, and nothing of it is carried on that could kill another worker.
#[tokio::test]
async fn an_unwanted_job_that_killed_enough_workers_is_claimed_to_be_cancelled() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let unwanted = queue.add(&job("unwanted")).await.unwrap();
        queue.claim("host#1", PATIENCE).await.unwrap().unwrap();
        queue.cancel(&unwanted).await.unwrap();
        database.execute("UPDATE jobs SET losses = 20, due_at = 0 WHERE status = 'active'").await;
        let stalled = queue.claim("host#2", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((&stalled.job_id, stalled.cancel_asked), (&unwanted, true));
        // Given back, it is claimed with the end of another job.
        let other = queue.add(&job("other")).await.unwrap();
        let held = queue.claim("elsewhere#1", PATIENCE).await.unwrap().unwrap();
        assert_eq!(held.job_id, other);
        database.execute("UPDATE jobs SET due_at = 0 WHERE query = 'unwanted'").await;
        assert_eq!(queue.reclaim("host#3", queue.now().await.unwrap()).await.unwrap(), 1);
        let next = queue.settle_and_claim(&held, &completed("1"), "elsewhere#1").await.unwrap().unwrap();
        assert_eq!((&next.job_id, next.cancel_asked), (&unwanted, true));
        queue.settle(&next, &AttemptEnd::Cancelled).await.unwrap();
        assert_eq!(queue.read(&unwanted).await.unwrap().unwrap().status, JobStatus::Cancelled);
        // The journal itself may be what kills them.
        let hopeless = queue.add(&job("hopeless")).await.unwrap();
        queue.claim("host#1", PATIENCE).await.unwrap().unwrap();
        queue.cancel(&hopeless).await.unwrap();
        database.execute("UPDATE jobs SET losses = 39, due_at = 0 WHERE query = 'hopeless'").await;
        assert!(queue.claim("host#2", Duration::ZERO).await.unwrap().is_none());
        assert_eq!(queue.read(&hopeless).await.unwrap().unwrap().status, JobStatus::Failed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_outlives_the_database() {
    let mut server = Postgres::start().await;
    let (queue, adding) = SqlQueue::new(migrated(SqlPool::postgres(&server.url()).unwrap()).await);
    let _adding = Task::begin(adding.run());
    let id = queue.add(&job("kept")).await.unwrap();
    let claim = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
    server.pause().await;
    let errors = [
        queue.add(&job("lost")).await.unwrap_err(),
        queue.read(&id).await.unwrap_err(),
        queue.claim("worker", Duration::ZERO).await.unwrap_err(),
        queue.settle(&claim, &completed("1")).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, QueueError::Store { .. }), "{error:?}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    server.resume().await;
    eventually("the end of the attempt to be written", async || {
        queue.settle(&claim, &completed("1")).await.ok()
    })
    .await;
    assert_eq!(queue.read(&id).await.unwrap().unwrap().status, JobStatus::Completed);
}

#[tokio::test]
async fn the_journal_of_a_job_survives_it() {
    let database = Database::sqlite();
    let (queue, _adding) = open_queue_of(&database).await;
    let (runs, _writing) = open_runs_of(&database).await;
    queue.add(&job("2 + 3")).await.unwrap();
    let claim = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
    runs.append(&claim.run_id, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    queue.settle(&claim, &completed("1")).await.unwrap();
    database.execute("DELETE FROM jobs").await;
    assert_eq!(runs.read(&claim.run_id, 0).await.unwrap(), [Event::Cancelled]);
}

fn job(query: &str) -> JobData {
    JobData::new(query, "u1")
}

/// No worker is there to tell the parent.
#[tokio::test]
async fn a_child_that_the_queue_ends_itself_has_its_parent_claimed() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let parent = queue.add(&job("parent")).await.unwrap();
        let claim = queue.claim("host#1", PATIENCE).await.unwrap().unwrap();
        let until = SystemTime::now() + Duration::from_secs(3600);
        let parked = AttemptEnd::Parked { until, open: OpenKinds::default() };
        queue.settle(&claim, &parked).await.unwrap();
        let child = JobData { parent: Some(format!("{parent}:1.0")), ..job("child") };
        let child = queue.add(&child).await.unwrap();
        let held = queue.claim("host#1", PATIENCE).await.unwrap().unwrap();
        assert_eq!(held.job_id, child);
        database.execute("UPDATE jobs SET losses = 20, due_at = 0 WHERE status = 'active'").await;
        let woken = queue.claim("worker", PATIENCE).await.unwrap().unwrap();
        assert_eq!(woken.job_id, parent);
        assert_eq!(queue.read(&child).await.unwrap().unwrap().status, JobStatus::Failed);
    }
}
