//! Removing runs that have ended: those that have a record, unless that says that they are under way or wait
//! ([`agent_core::ports::retention`]). The way goes along an index of when runs ended. Indexes are made here,
//! before they are first needed.

use std::sync::Arc;
use std::time::SystemTime;

use agent_core::ports::{
    EndedItem, EndedPage, HttpRecordings, PageResult, RetainedKind, Retention, RetentionError,
    RetentionResult, UNDER_WAY_FOR,
};
use boxed_async::boxed_async;
use futures::TryStreamExt as _;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database};

use super::documents::events_of;
use super::error::{ANSWER_TIMEOUT, QueryError, QueryResult, answer};
use super::indexes::{ENDED_AT, OrderIndexes};
use super::lease::store_time;
use super::time_pages;

/// The outcomes of runs that have ended, as records have them.
const ENDED: [&str; 2] = ["ended", "failed"];

/// How many runs' events are removed with one command.
const RUNS_AT_ONCE: usize = 20;

/// How many records are looked through for one page of a user's.
const LOOKED_THROUGH: i64 = 10_000;

/// The runs of a document store.
pub(super) struct MongoRetention {
    database: Database,
    records: Collection<Document>,
    events: Collection<Document>,
    indexes: OrderIndexes,
    /// What their tools were answered over HTTP, which another store keeps.
    recordings: Option<Arc<dyn HttpRecordings>>,
}

impl MongoRetention {
    pub(super) fn new(database: &Database, recordings: Option<Arc<dyn HttpRecordings>>) -> Self {
        Self {
            database: database.clone(),
            records: database.collection("run_records"),
            events: database.collection("run_events"),
            indexes: OrderIndexes::default(),
            recordings,
        }
    }

    /// The filter of records of runs that have ended. Those of runs that wait are passed over by the index,
    /// however many there are.
    fn ended() -> Document {
        doc! { "outcome": { "$in": ENDED } }
    }

    /// The filter of records of runs whose owner lives: heartbeats of the last minute.
    async fn under_way(&self) -> RetentionResult<Document> {
        let lives = DateTime::from_system_time(self.now().await? - UNDER_WAY_FOR);
        Ok(doc! { "outcome": "running", "finished_at": { "$gt": lives } })
    }

    /// Records with these, as far as a page needs them.
    async fn find(&self, filter: Document, sort: Document, most: i64) -> QueryResult<Vec<Document>> {
        let fields = doc! { "_id": 1, "job_id": 1, "user_id": 1, "finished_at": 1 };
        answer(async {
            let found = self.records.find(filter).sort(sort).limit(most).projection(fields);
            found.max_time(ANSWER_TIMEOUT).await?.try_collect().await
        })
        .await
    }
}

fn item(record: &Document) -> Option<EndedItem> {
    let id = record.get_str("_id").ok()?.to_owned();
    Some(EndedItem { id, job_id: record.get_str("job_id").ok().map(str::to_owned) })
}

fn end_of(record: &Document) -> Option<DateTime> {
    record.get_datetime("finished_at").ok().copied()
}

#[boxed_async]
impl Retention for MongoRetention {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Runs
    }

    async fn now(&self) -> RetentionResult<SystemTime> {
        Ok(store_time(&self.database).await?.to_system_time())
    }

    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>> {
        self.indexes.ensure(&self.records).await?;
        let newest =
            self.records.find(Self::ended()).sort(doc! { "finished_at": -1 }).max_time(ANSWER_TIMEOUT);
        let nth = newest.skip(count.saturating_sub(1)).limit(1).projection(doc! { "finished_at": 1 });
        let found: Vec<Document> = answer(async { nth.await?.try_collect().await }).await?;
        Ok(found.first().and_then(end_of).map(DateTime::to_system_time))
    }

    async fn ended_before(&self, before: SystemTime, from: Option<&str>, most: u32) -> PageResult {
        self.indexes.ensure(&self.records).await?;
        let mut wanted = doc! { "finished_at": { "$lt": DateTime::from_system_time(before) } };
        time_pages::go_on(&mut wanted, ENDED_AT, from);
        // A request's run that a job goes on with: it may wait beyond what its record says.
        let waits = doc! { "outcome": "running", "job_id": { "$ne": null } };
        let under_way = self.under_way().await?;
        wanted.insert("$nor", [waits, under_way]);
        let found = self.find(wanted, time_pages::order(ENDED_AT), i64::from(most)).await?;
        let next = time_pages::next(&found, ENDED_AT, most);
        Ok(EndedPage { items: found.iter().filter_map(item).collect(), next })
    }

    /// Erasing a user is rare, and an index for it would cost every run something: all records are looked
    /// through.
    async fn ended_of(&self, user_id: &str, from: Option<&str>, _most: u32) -> PageResult {
        let mut after = from.map_or_else(Document::new, |from| doc! { "_id": { "$gt": from } });
        let under_way = self.under_way().await?;
        after.insert("$nor", [under_way]);
        let found = self.find(after, doc! { "_id": 1 }, LOOKED_THROUGH).await?;
        let last = found.last().filter(|_| i64::try_from(found.len()).is_ok_and(|len| len >= LOOKED_THROUGH));
        let next = last.and_then(|last| last.get_str("_id").ok()).map(str::to_owned);
        let theirs = found.iter().filter(|record| record.get_str("user_id").is_ok_and(|id| id == user_id));
        Ok(EndedPage { items: theirs.filter_map(item).collect(), next })
    }

    /// The records last: a step that broke off is made again as long as they are there.
    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        // Runs that have a record: others have not ended.
        let under_way = self.under_way().await?;
        let ended = doc! { "_id": { "$in": ids }, "$nor": [under_way] };
        let most = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let ended = self.find(ended, doc! { "_id": 1 }, most).await?;
        let ended: Vec<String> =
            ended.iter().filter_map(|record| record.get_str("_id").ok().map(str::to_owned)).collect();
        if let Some(recordings) = &self.recordings {
            recordings.remove(&ended).await.map_err(|error| RetentionError(error.to_string()))?;
        }
        for runs in ended.chunks(RUNS_AT_ONCE) {
            let theirs: Vec<Document> = runs.iter().map(|id| events_of(id, 0)).collect();
            answer(self.events.delete_many(doc! { "$or": theirs }).into_future()).await?;
        }
        let records = self.records.delete_many(doc! { "_id": { "$in": ended } });
        Ok(answer(records.into_future()).await?.deleted_count)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        self.indexes.ensure(&self.records).await?;
        let found = self.find(Self::ended(), doc! { "finished_at": 1 }, 1).await?;
        Ok(found.first().and_then(end_of).map(DateTime::to_system_time))
    }
}

impl From<QueryError> for RetentionError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string())
    }
}
