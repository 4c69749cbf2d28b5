//! The tables of the database: made when the service starts, or as soon as the database is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backends::sql::{SetupError, SqlPool};
use tokio::time::sleep;

/// How long to wait before another attempt, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Brings a database up to date.
#[derive(Debug)]
pub(crate) struct Migration {
    database: SqlPool,
    done: Arc<AtomicBool>,
}

impl Migration {
    /// `done` becomes true when the tables are there.
    pub(crate) fn new(database: SqlPool, done: Arc<AtomicBool>) -> Self {
        Self { database, done }
    }

    /// Tries once. A database that is down may come back, so that is left to [`Self::keep_trying`], which has to
    /// be run then; what waiting cannot mend is an error of the start.
    pub(crate) async fn begin(self) -> Result<Option<Self>, SetupError> {
        match self.attempt().await {
            Ok(()) => Ok(None),
            Err(error @ SetupError::Store { .. }) => {
                tracing::warn!(%error, "the service is not ready before the database is");
                Ok(Some(self))
            }
            Err(error @ (SetupError::Newer { .. } | SetupError::Foreign { .. })) => Err(error),
        }
    }

    /// Tries until it is done.
    pub(crate) async fn keep_trying(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            match self.attempt().await {
                Ok(()) => {
                    tracing::info!("the database is prepared");
                    return;
                }
                Err(error) => tracing::debug!(%error, "the database is not prepared yet"),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self) -> Result<(), SetupError> {
        self.database.migrate().await?;
        self.done.store(true, Ordering::Release);
        Ok(())
    }
}
