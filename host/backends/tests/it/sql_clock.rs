//! The database's clock jumps an hour: leases are counted by it, so what may happen is said here. Each
//! heartbeat makes a lease whole again, a lease that was taken over meanwhile is lost for good, and nothing
//! ends twice.

use std::time::Duration;

use agent_core::ports::{Claim, JobQueue, Journal as _, JournalError, QueueError, Renewal};
use agent_core::words::{Event, JobData, JobStatus};
use test_servers::PATIENCE;

use crate::contract::queue::completed;
use crate::sql::{Database, open_queue_of, open_runs_of};

/// The view that tells the time to all statements, put forward or back.
macro_rules! jump {
    ($database:expr, $by:literal) => {
        match $database {
            Database::Sqlite(_) => {
                $database
                    .execute(concat!(
                        "BEGIN IMMEDIATE; DROP VIEW clock; \
                         CREATE VIEW clock AS SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) + ",
                        $by,
                        " AS ms; COMMIT"
                    ))
                    .await
            }
            Database::Postgres { .. } => {
                $database
                    .execute(concat!(
                        "CREATE OR REPLACE VIEW clock AS \
                         SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + ",
                        $by,
                        " AS ms"
                    ))
                    .await
            }
        }
    };
}

async fn claim(queue: &dyn JobQueue, patience: Duration) -> Option<Claim> {
    queue.claim("worker", patience).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_and_back_lets_no_job_end_twice() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let (queue, _adding) = open_queue_of(&database).await;
        let (peer, _adding_of_peer) = open_queue_of(&database).await;
        let (runs, _writing) = open_runs_of(&database).await;
        let id = queue.add(&JobData::new("q", "u1")).await.unwrap();
        let first = claim(&*queue, PATIENCE).await.expect("the job");
        runs.append(&first.run_id, first.epoch, 0, &[Event::Cancelled]).await.unwrap();

        // Ahead, and the next heartbeat comes before anybody looks: it has lost nothing.
        jump!(&database, "3600000");
        assert_eq!(queue.renew(&first).await, Ok(Renewal::Held));
        assert_eq!(claim(&*peer, Duration::ZERO).await, None);

        // Ahead again, and somebody looks before the next heartbeat: the first one may neither go on nor end
        // it.
        jump!(&database, "7200000");
        let second = claim(&*peer, PATIENCE).await.expect("its lease has ended by that clock");
        assert_eq!((&second.job_id, second.epoch > first.epoch), (&id, true));
        runs.append(&second.run_id, second.epoch, 1, &[Event::Cancelled]).await.unwrap();
        assert_eq!(queue.renew(&first).await, Ok(Renewal::Lost));
        let late = runs.append(&first.run_id, first.epoch, 2, &[Event::Cancelled]).await;
        assert!(matches!(late, Err(JournalError::Fenced { .. })), "{late:?}");
        let late = queue.settle(&first, &completed("1")).await;
        assert_eq!(late, Err(QueueError::LeaseLost { job_id: id.clone() }));

        // Back: whoever holds it keeps it, and ends it.
        jump!(&database, "-3600000");
        assert_eq!(claim(&*queue, Duration::ZERO).await, None);
        assert_eq!(peer.renew(&second).await, Ok(Renewal::Held));
        peer.settle(&second, &completed("2")).await.unwrap();
        let job = queue.read(&id).await.unwrap().expect("the job");
        assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
        assert_eq!(job.result.unwrap().get(), "2");

        // What is added under the clock as it is now is claimed at once.
        let next = queue.add(&JobData::new("next", "u1")).await.unwrap();
        assert_eq!(claim(&*queue, PATIENCE).await.expect("the next job").job_id, next);
    }
}
