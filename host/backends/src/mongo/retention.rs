//! Removing runs that have ended: those that have a record. The way goes along an index of when runs ended,
//! which is made here before it is first needed, as is the one that finds the run of a job.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{
    EndedItem, EndedPage, HttpRecordings, RetainedKind, Retention, RetentionError, RetentionResult,
};
use boxed_async::boxed_async;
use futures::TryStreamExt as _;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database, IndexModel};
use tokio::sync::OnceCell;

use super::documents::events_of;
use super::error::{QueryError, answer};
use super::lease::store_time;
use super::time_pages;

/// The field of a record that says when its run ended.
const ENDED_AT: &str = "finished_at";

/// How many runs' events are removed with one command.
const RUNS_AT_ONCE: usize = 20;

/// How many records are looked through for one page of a user's.
const LOOKED_THROUGH: i64 = 10_000;

/// The runs of a document store.
pub(super) struct MongoRetention {
    database: Database,
    records: Collection<Document>,
    events: Collection<Document>,
    indexes: Indexes,
    /// What their tools were answered over HTTP, which another store keeps.
    recordings: Option<Arc<dyn HttpRecordings>>,
}

/// The indexes of records beside that of their ids. Clones make them once.
#[derive(Debug, Clone, Default)]
pub(super) struct Indexes(Arc<OnceCell<()>>);

impl Indexes {
    /// Makes them if they are not there. Several processes may at once, and writes go on meanwhile.
    pub(super) async fn ensure<T: Send + Sync>(&self, records: &Collection<T>) -> Result<(), QueryError> {
        let made = self.0.get_or_try_init(|| async {
            let indexes =
                ["finished_at", "job_id"].map(|key| IndexModel::builder().keys(doc! { key: 1 }).build());
            answer(records.create_indexes(indexes).into_future()).await.map(drop)
        });
        made.await.map(drop)
    }
}

impl MongoRetention {
    pub(super) fn new(database: &Database, recordings: Option<Arc<dyn HttpRecordings>>) -> Self {
        Self {
            database: database.clone(),
            records: database.collection("run_records"),
            events: database.collection("run_events"),
            indexes: Indexes::default(),
            recordings,
        }
    }

    /// Records with these, as far as a page needs them.
    async fn find(&self, filter: Document, sort: Document, most: i64) -> Result<Vec<Document>, QueryError> {
        let fields = doc! { "_id": 1, "job_id": 1, "user_id": 1, "finished_at": 1 };
        answer(async {
            let found = self.records.find(filter).sort(sort).limit(most).projection(fields).await?;
            found.try_collect().await
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
        let newest = self.records.find(doc! {}).sort(doc! { "finished_at": -1 });
        let nth = newest.skip(count.saturating_sub(1)).limit(1).projection(doc! { "finished_at": 1 });
        let found: Vec<Document> = answer(async { nth.await?.try_collect().await }).await?;
        Ok(found.first().and_then(end_of).map(DateTime::to_system_time))
    }

    async fn ended_before(
        &self,
        before: SystemTime,
        from: Option<&str>,
        most: u32,
    ) -> RetentionResult<EndedPage> {
        self.indexes.ensure(&self.records).await?;
        let mut wanted = doc! { "finished_at": { "$lt": DateTime::from_system_time(before) } };
        time_pages::go_on(&mut wanted, ENDED_AT, from);
        // A request's run that a job goes on with: it may wait beyond what its record says.
        wanted.insert("$nor", [doc! { "outcome": "running", "job_id": { "$ne": null } }]);
        let found = self.find(wanted, time_pages::order(ENDED_AT), i64::from(most)).await?;
        let next = time_pages::next(&found, ENDED_AT, most);
        Ok(EndedPage { items: found.iter().filter_map(item).collect(), next })
    }

    /// Erasing a user is rare, and an index for it would cost every run something: all records are looked
    /// through.
    async fn ended_of(&self, user_id: &str, from: Option<&str>, _most: u32) -> RetentionResult<EndedPage> {
        let mut after = from.map_or_else(Document::new, |from| doc! { "_id": { "$gt": from } });
        // A run whose owner lives has not ended: its record is a heartbeat of the last minute.
        let lives = DateTime::from_system_time(self.now().await? - Duration::from_secs(60));
        after.insert("$nor", [doc! { "outcome": "running", "finished_at": { "$gt": lives } }]);
        let found = self.find(after, doc! { "_id": 1 }, LOOKED_THROUGH).await?;
        let last = found.last().filter(|_| i64::try_from(found.len()).is_ok_and(|len| len >= LOOKED_THROUGH));
        let next = last.and_then(|last| last.get_str("_id").ok()).map(str::to_owned);
        let theirs = found.iter().filter(|record| record.get_str("user_id").is_ok_and(|id| id == user_id));
        Ok(EndedPage { items: theirs.filter_map(item).collect(), next })
    }

    /// The records last: a step that broke off is made again as long as they are there.
    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        if let Some(recordings) = &self.recordings {
            recordings.remove(ids).await.map_err(|error| RetentionError(error.to_string()))?;
        }
        // Runs that have a record: others have not ended.
        let most = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let ended = self.find(doc! { "_id": { "$in": ids } }, doc! { "_id": 1 }, most).await?;
        let ended: Vec<&str> = ended.iter().filter_map(|record| record.get_str("_id").ok()).collect();
        for runs in ended.chunks(RUNS_AT_ONCE) {
            let theirs: Vec<Document> = runs.iter().map(|id| events_of(id, 0)).collect();
            answer(self.events.delete_many(doc! { "$or": theirs }).into_future()).await?;
        }
        let records = self.records.delete_many(doc! { "_id": { "$in": ids } });
        Ok(answer(records.into_future()).await?.deleted_count)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        let found = self.find(doc! {}, doc! { "finished_at": 1 }, 1).await?;
        Ok(found.first().and_then(end_of).map(DateTime::to_system_time))
    }
}

impl From<QueryError> for RetentionError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string())
    }
}
