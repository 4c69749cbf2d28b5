//! Leases in documents: fields that name the holder and say until when nobody else may claim. Times are the
//! server's. Of two who want to make a document one is told that its key is taken.

use std::time::Duration;

use agent_core::ports::{ClaimTime, LeaseError, LeaseResult, Leases, Renewal};
use boxed_async::boxed_async;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::{Collection, Database};

use super::error::{QueryError, QueryResult, answer};

/// Code of a document whose key is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// Documents that are claimed under leases.
#[derive(Debug, Clone)]
pub(super) struct LeasedDocuments {
    database: Database,
    pub(super) documents: Collection<Document>,
    /// The field of the holder.
    owner: &'static str,
    /// The field of the time when its lease ends.
    until: &'static str,
}

impl LeasedDocuments {
    pub(super) fn new(
        database: &Database,
        collection: &str,
        owner: &'static str,
        until: &'static str,
    ) -> Self {
        Self { database: database.clone(), documents: database.collection(collection), owner, until }
    }

    pub(super) async fn now(&self) -> QueryResult<DateTime> {
        store_time(&self.database).await
    }

    /// What finds a document that is held.
    pub(super) fn held(&self, id: &str, owner: &str) -> Document {
        doc! { "_id": id, self.owner: owner }
    }

    /// What makes `owner` the holder.
    pub(super) fn claimed(&self, owner: &str, now: DateTime, lease: Duration) -> Document {
        doc! { self.owner: owner, self.until: after(now, lease) }
    }

    /// What finds documents that nobody holds.
    pub(super) fn free(&self, now: DateTime) -> Document {
        doc! { self.until: { "$lte": now } }
    }

    /// Changes the document that this finds. Says whether there was one.
    pub(super) async fn change(&self, found: Document, set: Document) -> QueryResult<bool> {
        let changed = self.documents.update_one(found, doc! { "$set": set });
        Ok(answer(changed.into_future()).await?.matched_count > 0)
    }

    pub(super) async fn renew(&self, id: &str, owner: &str, lease: Duration) -> QueryResult<Renewal> {
        let now = self.now().await?;
        self.change(self.held(id, owner), self.claimed(owner, now, lease)).await.map(Renewal::of_holder)
    }
}

/// Leases by name in MongoDB: a document each, which says as well when it is due.
#[derive(Debug)]
pub(super) struct MongoLeases(LeasedDocuments);

impl MongoLeases {
    pub(super) fn new(database: &Database) -> Self {
        Self(LeasedDocuments::new(database, "sweeps", "sweeper", "held_until"))
    }
}

#[boxed_async]
impl Leases for MongoLeases {
    async fn claim(&self, name: &str, owner: &str, lease: Duration, time: ClaimTime) -> LeaseResult<bool> {
        let now = self.0.now().await?;
        let mut free = self.0.free(now);
        free.insert("_id", name);
        if time == ClaimTime::WhenDue {
            free.insert("due_at", doc! { "$lte": now });
        }
        let claimed = doc! { "$set": self.0.claimed(owner, now, lease), "$setOnInsert": { "due_at": now } };
        match answer(self.0.documents.update_one(free, claimed).upsert(true).into_future()).await {
            Ok(_updated) => Ok(true),
            Err(error) if is_taken(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn renew(&self, name: &str, owner: &str, lease: Duration) -> LeaseResult<Renewal> {
        Ok(self.0.renew(name, owner, lease).await?)
    }

    async fn settle(&self, name: &str, owner: &str, next: Duration) -> LeaseResult<bool> {
        let now = self.0.now().await?;
        let set = doc! { "sweeper": "", "held_until": now, "due_at": after(now, next) };
        Ok(self.0.change(self.0.held(name, owner), set).await?)
    }
}

/// The time by the server's clock.
pub(super) async fn store_time(database: &Database) -> QueryResult<DateTime> {
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

impl From<QueryError> for LeaseError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string())
    }
}
