//! Runs in two collections: their events, appended through one writer, and their records.

use std::sync::Arc;

use agent_core::ports::{Journal, JournalError, RunStore};
use agent_core::words::{Event, RunRecord};
use async_trait::async_trait;
use futures::TryStreamExt as _;
use mongodb::bson::doc;
use mongodb::{Collection, Database};

use super::documents::{EventDocument, RecordDocument, events_of};
use super::fault::{answer, store_error};
use super::writer::{Appended, BOUNDS, MongoWriter};
use crate::Writer;
use crate::batch::{Ended, Waiters, gather};

/// Keeps runs in MongoDB. Clones keep the same ones.
#[derive(Debug, Clone)]
pub struct MongoRuns {
    events: Collection<EventDocument>,
    records: Collection<RecordDocument>,
    appends: Waiters<EventDocument, Appended>,
}

/// The runs of a database, and the writer of their events.
pub(super) fn open(database: &Database) -> (MongoRuns, Writer) {
    let events = database.collection("run_events");
    let records = database.collection("run_records");
    let (appends, batches) = gather(BOUNDS);
    let writer = Arc::new(MongoWriter::new(events.clone(), batches));
    let writing = move || {
        let writer = writer.clone();
        async move { writer.run().await }
    };
    (MongoRuns { events, records, appends }, Writer::new(writing))
}

#[async_trait]
impl Journal for MongoRuns {
    async fn append(&self, run_id: &str, sequence: u64, event: &Event) -> Result<(), JournalError> {
        let document = EventDocument::new(run_id, sequence, event)?;
        let ended = |Ended| Err(store_error("its writer broke off or has ended"));
        self.appends.write(document).await.unwrap_or_else(ended)
    }

    async fn read(&self, run_id: &str) -> Result<Vec<Event>, JournalError> {
        let reading = async {
            let found = self.events.find(events_of(run_id)).sort(doc! { "_id": 1 }).await?;
            found.try_collect::<Vec<_>>().await
        };
        answer(reading).await?.iter().map(EventDocument::event).collect()
    }
}

#[async_trait]
impl RunStore for MongoRuns {
    async fn save(&self, record: &RunRecord) -> Result<(), JournalError> {
        let place = doc! { "_id": &record.id };
        let document = RecordDocument::from(record);
        answer(self.records.replace_one(place, document).upsert(true).into_future()).await?;
        Ok(())
    }

    async fn find(&self, run_id: &str) -> Result<Option<RunRecord>, JournalError> {
        let found = answer(self.records.find_one(doc! { "_id": run_id }).into_future()).await?;
        Ok(found.map(RunRecord::from))
    }
}
