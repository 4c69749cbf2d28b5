//! Runs in two collections: their events, appended through one writer, and their records.

use std::sync::Arc;

use agent_core::ports::{Epoch, Journal, JournalResult, RunStore};
use agent_core::words::{Event, RunOutcome, RunQuery, RunRecord};
use boxed_async::boxed_async;
use futures::TryStreamExt as _;
use mongodb::bson::{DateTime, doc};
use mongodb::{Collection, Database};

use super::documents::{EpochDocument, EventDocument, RecordDocument, consecutive, event_before, events_of};
use super::error::{ANSWER_TIMEOUT, answer, store_error};
use super::indexes::Indexes;
use super::lease::is_taken;
use super::writer::{Append, Appended, BOUNDS, MongoWriter};
use crate::Writer;
use crate::group_commit::{Submitter, WriterEnded, channel};

/// Keeps runs in MongoDB. Clones keep the same ones.
#[derive(Debug, Clone)]
pub(super) struct MongoRuns {
    events: Collection<EventDocument>,
    records: Collection<RecordDocument>,
    appends: Submitter<Append, Appended>,
    indexes: Indexes,
}

/// The runs of a database, and the writer of their events.
pub(super) fn open(database: &Database) -> (Arc<dyn RunStore>, Writer) {
    let events = database.collection("run_events");
    let records = database.collection("run_records");
    let (appends, batches) = channel(BOUNDS);
    let writer = Arc::new(MongoWriter::new(events.clone(), batches));
    let writing = move || {
        let writer = writer.clone();
        async move { writer.run().await }
    };
    let runs = MongoRuns { events, records, appends, indexes: Indexes::default() };
    (Arc::new(runs), Writer::new(writing))
}

impl MongoRuns {
    /// The events of a run that were found from a number on, as far as they follow the one before. That is
    /// asked for when something was found, so that whoever polls for the next event asks once; its place is
    /// never given to another one, so it may be read last.
    async fn visible(&self, run_id: &str, from: u64, found: &[EventDocument]) -> JournalResult<Vec<Event>> {
        let before = match event_before(run_id, from) {
            Some(before) if !found.is_empty() => {
                let epochs = self.events.clone_with_type::<EpochDocument>();
                let epoch = epochs.find_one(before).projection(doc! { "epoch": 1 });
                let Some(before) = answer(epoch.into_future()).await? else { return Ok(vec![]) };
                before.epoch
            }
            _ => 0,
        };
        consecutive(found, from, before)
    }
}

#[boxed_async]
impl Journal for MongoRuns {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        let documents = (0..).zip(events).map(|(index, event)| {
            let sequence = first.saturating_add(index);
            EventDocument::new(run_id, epoch, sequence, event)
        });
        let mut documents = documents.collect::<Result<Vec<_>, _>>()?.into_iter();
        let Some(first) = documents.next() else { return Ok(()) };
        let ended = |WriterEnded| Err(store_error("its writer broke off or has ended"));
        self.appends.write(Append { first, rest: documents.collect() }).await.unwrap_or_else(ended)
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        let reading = async {
            let found = self.events.find(events_of(run_id, from)).sort(doc! { "_id": 1 }).await?;
            found.try_collect::<Vec<_>>().await
        };
        self.visible(run_id, from, &answer(reading).await?).await
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        if most == 0 {
            // To the server no limit at all.
            return Ok(vec![]);
        }
        let reading = async {
            let found = self.events.find(events_of(run_id, from)).sort(doc! { "_id": 1 });
            found.limit(i64::from(most)).await?.try_collect::<Vec<_>>().await
        };
        self.visible(run_id, from, &answer(reading).await?).await
    }
}

#[boxed_async]
impl RunStore for MongoRuns {
    async fn save(&self, record: &RunRecord) -> JournalResult {
        let mut replaced = doc! { "_id": &record.id };
        match record.outcome {
            RunOutcome::Running => {
                let end = DateTime::from_system_time(record.finished_at);
                replaced.insert("outcome", "running");
                replaced.insert("finished_at", doc! { "$lte": end });
            }
            RunOutcome::Failed { .. } => {
                replaced.insert("outcome", doc! { "$ne": "ended" });
            }
            RunOutcome::Ended { .. } => {}
        }
        let may_be_behind = replaced.contains_key("outcome");
        for _ in 0..2 {
            let saving = self.records.replace_one(replaced.clone(), RecordDocument::from(record));
            match answer(saving.upsert(true).into_future()).await {
                Ok(_saved) => return Ok(()),
                // The record is behind the one that is kept. Or another one was made in the same moment: then
                // the second try is written over that.
                Err(error) if may_be_behind && is_taken(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn find(&self, run_id: &str) -> JournalResult<Option<RunRecord>> {
        let found = answer(self.records.find_one(doc! { "_id": run_id }).into_future()).await?;
        Ok(found.map(RunRecord::from))
    }

    async fn list(&self, wanted: &RunQuery<'_>) -> JournalResult<Vec<RunRecord>> {
        self.indexes.ensure(&self.records).await?;
        let mut matching = doc! {};
        if let Some(user_id) = wanted.user_id {
            matching.insert("user_id", user_id);
        }
        if let Some((end, id)) = wanted.after {
            let end = DateTime::from_system_time(end);
            let earlier = doc! { "finished_at": { "$lt": end } };
            // For the index, which is walked in order: of the alternatives the server makes no bounds.
            matching.insert("finished_at", doc! { "$lte": end });
            matching.insert("$or", [earlier, doc! { "finished_at": end, "_id": { "$lt": id } }]);
        }
        let reading = async {
            let found = self.records.find(matching).sort(doc! { "finished_at": -1, "_id": -1 });
            let found = found.limit(i64::from(wanted.limit)).max_time(ANSWER_TIMEOUT);
            found.await?.try_collect::<Vec<_>>().await
        };
        Ok(answer(reading).await?.into_iter().map(RunRecord::from).collect())
    }

    async fn find_by_job(&self, job_id: &str, user_id: &str) -> JournalResult<Option<RunRecord>> {
        self.indexes.ensure(&self.records).await?;
        let theirs = self.records.find_one(doc! { "job_id": job_id, "user_id": user_id });
        let found = answer(theirs.sort(doc! { "finished_at": -1 }).into_future()).await?;
        Ok(found.map(RunRecord::from))
    }
}
