//! The lock under which one process removes things of a kind: one document with a lease. Of two who want to
//! make it one is told that its key is taken.

use std::time::Duration;

use agent_core::ports::{RetainedKind, SweepTime};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::{Collection, Database};

use super::error::{QueryError, answer};

/// Code of a document whose key is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// The lock of one kind, and the time by the server's clock.
#[derive(Debug)]
pub(super) struct SweepLock {
    database: Database,
    sweeps: Collection<Document>,
    kind: RetainedKind,
}

impl SweepLock {
    pub(super) fn new(database: &Database, kind: RetainedKind) -> Self {
        Self { database: database.clone(), sweeps: database.collection("sweeps"), kind }
    }

    pub(super) async fn store_time(&self) -> Result<DateTime, QueryError> {
        store_time(&self.database).await
    }

    pub(super) async fn begin(
        &self,
        sweeper: &str,
        lease: Duration,
        time: SweepTime,
    ) -> Result<bool, QueryError> {
        let now = self.store_time().await?;
        let mut free = doc! { "_id": self.kind.as_str(), "held_until": { "$lte": now } };
        if time == SweepTime::WhenDue {
            free.insert("due_at", doc! { "$lte": now });
        }
        let taken = doc! {
            "$set": { "sweeper": sweeper, "held_until": after(now, lease) },
            "$setOnInsert": { "due_at": now },
        };
        match answer(self.sweeps.update_one(free, taken).upsert(true).into_future()).await {
            Ok(_updated) => Ok(true),
            Err(error) if is_taken(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn renew(&self, sweeper: &str, lease: Duration) -> Result<bool, QueryError> {
        let now = self.store_time().await?;
        let renewed = self.sweeps.update_one(
            doc! { "_id": self.kind.as_str(), "sweeper": sweeper },
            doc! { "$set": { "held_until": after(now, lease) } },
        );
        Ok(answer(renewed.into_future()).await?.matched_count > 0)
    }

    pub(super) async fn end(&self, sweeper: &str, next: Duration) -> Result<(), QueryError> {
        let now = self.store_time().await?;
        let ended = self.sweeps.update_one(
            doc! { "_id": self.kind.as_str(), "sweeper": sweeper },
            doc! { "$set": { "held_until": now, "due_at": after(now, next) } },
        );
        answer(ended.into_future()).await.map(drop)
    }
}

/// The time by the server's clock.
pub(super) async fn store_time(database: &Database) -> Result<DateTime, QueryError> {
    let hello = answer(database.run_command(doc! { "hello": 1 }).into_future()).await?;
    Ok(hello.get_datetime("localTime").copied().unwrap_or_else(|_absent| DateTime::now()))
}

pub(super) fn after(time: DateTime, later: Duration) -> DateTime {
    let later = i64::try_from(later.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_millis(time.timestamp_millis().saturating_add(later))
}

/// Whether somebody else has made a document of that key.
pub(super) fn is_taken(error: &QueryError) -> bool {
    let QueryError::Driver(error) = error else { return false };
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code == DUPLICATE_KEY,
        ErrorKind::Command(error) => error.code == DUPLICATE_KEY,
        _ => false,
    }
}
