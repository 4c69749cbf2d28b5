//! The tables of the database: made when the service starts, or as soon as the database is there.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::{Probe, ProbeError};
use backends::sql::{SetupError, SqlPool};
use boxed_async::boxed_async;
use tokio::time::{Instant, sleep};

/// How long to wait before another attempt, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long to wait after a refusal, which only an operator can mend, and after a table could not be locked:
/// behind each try everybody waits for it, in the release that still serves as well.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// How long a failure that stays the same is kept out of the log.
const QUIET: Duration = Duration::from_secs(60);

/// What is known of the database's tables. Clones know the same.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// Whether the tables are there, and those of this program.
    pub(crate) prepared: Arc<AtomicBool>,
    /// Why they cannot be used, until they can.
    refused: Arc<Mutex<Option<SetupError>>>,
}

/// Brings a database up to date.
#[boxed_async]
pub(crate) trait Migrate: Send + Sync {
    async fn migrate(&self) -> Result<(), SetupError>;
}

#[boxed_async]
impl Migrate for SqlPool {
    async fn migrate(&self) -> Result<(), SetupError> {
        Self::migrate(self).await
    }
}

/// Brings a database up to date, however long that takes.
pub(crate) struct Migration {
    database: Arc<dyn Migrate>,
    schema: Schema,
    /// The last failure that the log was told, and when.
    warned: Mutex<Option<(Instant, SetupError)>>,
}

impl Schema {
    /// `prepared` when there is nothing to be prepared.
    pub(crate) fn new(prepared: bool) -> Self {
        Self { prepared: Arc::new(AtomicBool::new(prepared)), refused: Arc::default() }
    }

    /// The database's check, which fails as well until its tables are there and while they cannot be used.
    pub(crate) fn checked(&self, database: Arc<dyn Probe>) -> Arc<dyn Probe> {
        Arc::new(Usable { database, schema: self.clone() })
    }
}

impl Migration {
    pub(crate) fn new(database: Arc<dyn Migrate>, schema: Schema) -> Self {
        Self { database, schema, warned: Mutex::default() }
    }

    /// Tries once. A database that is down may come back, so that is left to [`Self::keep_trying`], which has
    /// to be run then; what waiting cannot mend is an error of the start.
    pub(crate) async fn begin(self) -> Result<Option<Self>, SetupError> {
        match self.attempt().await {
            Ok(()) => Ok(None),
            Err(error @ (SetupError::Store { .. } | SetupError::Locked { .. })) => {
                self.warn(error);
                Ok(Some(self))
            }
            Err(error @ (SetupError::Newer { .. } | SetupError::Foreign { .. })) => Err(error),
        }
    }

    /// Tries until it is done. A database that turns out to be somebody else's is an error here and a failed
    /// check of readiness, and is tried again: an operator may put another one in its place.
    pub(crate) async fn keep_trying(&self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let was_locked = matches!(&*self.warned.lock(), Some((_, SetupError::Locked { .. })));
        let mut pause = if was_locked { LONG_PAUSE } else { backoff.next() };
        loop {
            sleep(pause).await;
            match self.attempt().await {
                Ok(()) => {
                    tracing::info!("the database is prepared");
                    return;
                }
                Err(error @ SetupError::Store { .. }) => {
                    self.warn(error);
                    pause = backoff.next();
                }
                Err(error @ SetupError::Locked { .. }) => {
                    self.warn(error);
                    pause = LONG_PAUSE;
                }
                Err(error) => {
                    self.refuse(error);
                    pause = LONG_PAUSE;
                }
            }
        }
    }

    async fn attempt(&self) -> Result<(), SetupError> {
        self.database.migrate().await?;
        *self.schema.refused.lock() = None;
        self.schema.prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Says so at once when the reason is another one than before, and else once in [`QUIET`]: a role that
    /// may make no tables stays without them until an operator reads of it. True when it was said.
    fn warn(&self, error: SetupError) -> bool {
        let mut warned = self.warned.lock();
        if warned.as_ref().is_some_and(|(when, before)| *before == error && when.elapsed() < QUIET) {
            return false;
        }
        tracing::warn!(%error, "the service is not ready before the database is");
        *warned = Some((Instant::now(), error));
        true
    }

    /// Says so once, and again only when it is another reason.
    fn refuse(&self, error: SetupError) {
        let mut refused = self.schema.refused.lock();
        if refused.as_ref() != Some(&error) {
            tracing::error!(
                %error,
                "DATABASE_URL names a database that this program cannot use: run the release that made its tables, \
                 or name another database"
            );
        }
        *refused = Some(error);
    }
}

/// A database that answers and can be used.
struct Usable {
    database: Arc<dyn Probe>,
    schema: Schema,
}

#[boxed_async]
impl Probe for Usable {
    fn name(&self) -> &'static str {
        self.database.name()
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        if let Some(error) = &*self.schema.refused.lock() {
            return Err(ProbeError(error.to_string()));
        }
        let latency = self.database.check().await?;
        if self.schema.prepared.load(Ordering::Acquire) {
            Ok(latency)
        } else {
            Err(ProbeError("the database is not prepared yet".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::probes::InProcess;
    use super::*;

    /// Gives these answers in their order, then works.
    struct Scripted(Mutex<VecDeque<SetupError>>);

    #[boxed_async]
    impl Migrate for Scripted {
        async fn migrate(&self) -> Result<(), SetupError> {
            self.0.lock().pop_front().map_or(Ok(()), Err)
        }
    }

    fn migration(answers: impl IntoIterator<Item = SetupError>) -> (Migration, Schema) {
        let schema = Schema::new(false);
        let database = Scripted(Mutex::new(answers.into_iter().collect()));
        (Migration::new(Arc::new(database), schema.clone()), schema)
    }

    fn down() -> SetupError {
        SetupError::Store { detail: "connection refused".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_turns_out_to_be_newer_fails_the_check_until_it_is_another_one() {
        let newer = SetupError::Newer { version: 7 };
        let (migration, schema) = migration([down(), down(), newer.clone(), newer.clone(), down()]);
        let probe = schema.checked(Arc::new(InProcess));
        let migration = migration.begin().await.unwrap().expect("it may come back");
        assert_eq!(probe.check().await, Err(ProbeError("the database is not prepared yet".into())));
        let watching = async {
            sleep(FIRST_PAUSE * 2 + LONGEST_PAUSE).await;
            assert_eq!(probe.check().await, Err(ProbeError(newer.to_string())));
            assert!(!schema.prepared.load(Ordering::Acquire));
        };
        tokio::join!(migration.keep_trying(), watching);
        assert_eq!(probe.check().await, Ok(None));
        assert!(schema.prepared.load(Ordering::Acquire));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_stays_the_same_is_said_once_a_minute_and_another_one_at_once() {
        let denied = || SetupError::Store { detail: "permission denied for schema public".into() };
        let (migration, _schema) = migration([]);
        assert!(migration.warn(down()));
        assert!(!migration.warn(down()));
        assert!(migration.warn(denied()));
        tokio::time::advance(QUIET - Duration::from_secs(1)).await;
        assert!(!migration.warn(denied()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(migration.warn(denied()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_others_use_is_left_to_them_for_a_while_before_the_next_try() {
        let locked = || SetupError::Locked { detail: "a table could not be locked in time".into() };
        for answers in [vec![locked()], vec![down(), locked()]] {
            let (migration, _schema) = migration(answers);
            let migration = migration.begin().await.unwrap().expect("it may be free soon");
            let began = Instant::now();
            migration.keep_trying().await;
            assert!(began.elapsed() >= LONG_PAUSE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_of_somebody_else_keeps_the_service_from_starting() {
        for error in [SetupError::Newer { version: 7 }, SetupError::Foreign { version: 1 }] {
            let (migration, _schema) = migration([error.clone()]);
            assert_eq!(migration.begin().await.err(), Some(error));
        }
    }
}
