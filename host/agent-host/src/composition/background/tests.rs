//! What goes on although it panicked.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_core::testing::TestQueue;
use agent_core::words::{JobData, JobStatus};
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

#[tokio::test(start_paused = true)]
async fn a_recovery_that_panicked_gives_back_what_the_predecessor_held() {
    let supervised = Supervised::default();
    let queue = Arc::new(TestQueue::default());
    let id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
    queue.claim("here#1", Duration::ZERO).await.unwrap().expect("the job");
    // Whoever asks for it first panics.
    let asked = AtomicBool::new(false);
    queue.before_writes(move |_queue| assert!(asked.swap(true, Ordering::Relaxed), "the recovery fell"));
    supervised.starting().recover(queue.clone(), "here#2".into(), &supervised.tasks);
    supervised.tasks.finished().await;
    assert_eq!(queue.job(&id).status, JobStatus::Waiting);
    assert_eq!(supervised.restarted(), ["recovery"]);
}
