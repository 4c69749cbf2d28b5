//! What goes on although it panicked.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::ports::queue::{AttemptEnd, Claim};
use agent_core::ports::{QueueError, Renewal};
use agent_core::words::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, RetryOutcome};
use backends::sql::SetupError;
use boxed_async::boxed_async;

use super::super::migration::{Migrate, Schema};
use super::*;

/// Supervised tasks, and the names of those that were begun anew.
#[derive(Default)]
struct Supervised {
    tasks: Tasks,
    stopping: CancellationToken,
    restarted: Arc<Mutex<Vec<&'static str>>>,
}

impl Supervised {
    fn starting(&self) -> Starting<'_> {
        let restarted = self.restarted.clone();
        let supervisor = Supervisor::new(move |name, restarts| {
            if restarts > 0 {
                restarted.lock().push(name);
            }
        });
        Starting { supervisor, stopping: &self.stopping }
    }

    fn restarted(&self) -> Vec<&'static str> {
        self.restarted.lock().clone()
    }
}

/// Cannot be reached at first, then panics, then is migrated.
#[derive(Default)]
struct Clumsy(Mutex<u32>);

#[boxed_async]
impl Migrate for Clumsy {
    async fn migrate(&self) -> Result<(), SetupError> {
        let attempt = {
            let mut attempts = self.0.lock();
            *attempts += 1;
            *attempts
        };
        assert_ne!(attempt, 2, "the migration fell");
        if attempt == 1 { Err(SetupError::Store { detail: "connection refused".into() }) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_panicked_is_tried_again_until_the_database_is_prepared() {
    let supervised = Supervised::default();
    let schema = Schema::new(false);
    let migration = Migration::new(Arc::new(Clumsy::default()), schema.clone());
    let migration = migration.begin().await.unwrap().expect("the database cannot be reached yet");
    supervised.starting().migrate(migration, &supervised.tasks);
    supervised.tasks.finished().await;
    assert!(schema.prepared.load(Ordering::Acquire));
    assert_eq!(supervised.restarted(), ["migration"]);
}

/// A predecessor left one job; whoever asks for it first panics. Nothing else is asked of it.
#[derive(Default)]
struct LeftQueue {
    asked: AtomicBool,
    given: AtomicBool,
}

#[boxed_async]
impl JobQueue for LeftQueue {
    async fn now(&self) -> Result<SystemTime, QueueError> {
        Ok(UNIX_EPOCH)
    }

    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError> {
        assert_eq!((worker, began), ("this one", UNIX_EPOCH));
        assert!(self.asked.swap(true, Ordering::Relaxed), "the recovery fell");
        Ok(u64::from(!self.given.swap(true, Ordering::Relaxed)))
    }

    async fn add(&self, _: &JobData) -> Result<String, QueueError> {
        unreachable!()
    }

    async fn read(&self, _: &str) -> Result<Option<Job>, QueueError> {
        unreachable!()
    }

    async fn list(&self, _: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        unreachable!()
    }

    async fn cancel(&self, _: &str) -> Result<CancelOutcome, QueueError> {
        unreachable!()
    }

    async fn retry(&self, _: &str) -> Result<RetryOutcome, QueueError> {
        unreachable!()
    }

    async fn list_parked(&self, _: usize, _: Option<&str>) -> Result<JobPage, QueueError> {
        unreachable!()
    }

    async fn resume(&self, _: &str, _: Duration) -> Result<bool, QueueError> {
        unreachable!()
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        unreachable!()
    }

    async fn claim(&self, _: &str, _: Duration) -> Result<Option<Claim>, QueueError> {
        unreachable!()
    }

    async fn renew(&self, _: &Claim) -> Result<Renewal, QueueError> {
        unreachable!()
    }

    async fn settle(&self, _: &Claim, _: &AttemptEnd) -> Result<(), QueueError> {
        unreachable!()
    }

    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_recovery_that_panicked_gives_back_what_the_predecessor_held() {
    let supervised = Supervised::default();
    let queue = Arc::new(LeftQueue::default());
    supervised.starting().recover(queue.clone(), "this one".into(), &supervised.tasks);
    supervised.tasks.finished().await;
    assert!(queue.given.load(Ordering::Relaxed));
    assert_eq!(supervised.restarted(), ["recovery"]);
}
