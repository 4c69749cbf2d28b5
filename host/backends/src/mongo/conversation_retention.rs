//! Removing conversations and responses that nobody holds: by when they were last appended to.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage, PageResult, RetainedKind, Retention, RetentionResult};
use boxed_async::boxed_async;
use futures::TryStreamExt as _;
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use tokio::sync::OnceCell;

use super::conversations::leased;
use super::error::{ANSWER_TIMEOUT, QueryResult, answer};
use super::indexes::make;
use super::lease::LeasedDocuments;
use super::time_pages;

/// The field that says when a turn was last appended.
const APPENDED_AT: &str = "updated_at";

/// The conversations of a document store.
#[derive(Debug)]
pub(super) struct MongoConversationRetention {
    leased: LeasedDocuments,
    /// The index of when a turn was last appended. No request waits for it: an earlier release had none, so
    /// it may be made over many conversations.
    index: OnceCell<()>,
}

impl MongoConversationRetention {
    pub(super) fn new(database: &Database) -> Self {
        Self { leased: leased(database), index: OnceCell::new() }
    }

    async fn ensure_index(&self) -> QueryResult {
        let keys = || vec![time_pages::order(APPENDED_AT)];
        self.index.get_or_try_init(|| make(&self.leased.documents, keys())).await.map(drop)
    }

    async fn find(
        &self,
        wanted: Document,
        sort: Document,
        skip: u64,
        most: i64,
    ) -> QueryResult<Vec<Document>> {
        answer(async {
            let found =
                self.leased.documents.find(wanted).sort(sort).skip(skip).limit(most).max_time(ANSWER_TIMEOUT);
            found.projection(doc! { "_id": 1, "updated_at": 1 }).await?.try_collect().await
        })
        .await
    }

    /// What finds those that nobody holds.
    async fn idle(&self) -> QueryResult<Document> {
        Ok(self.leased.free(self.leased.now().await?))
    }
}

fn item(document: &Document) -> Option<EndedItem> {
    Some(EndedItem { id: document.get_str("_id").ok()?.to_owned(), job_id: None })
}

fn time_of(document: &Document) -> Option<DateTime> {
    document.get_datetime("updated_at").ok().copied()
}

#[boxed_async]
impl Retention for MongoConversationRetention {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Conversations
    }

    async fn now(&self) -> RetentionResult<SystemTime> {
        Ok(self.leased.now().await?.to_system_time())
    }

    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>> {
        self.ensure_index().await?;
        let newest_first = doc! { "updated_at": -1 };
        let found = self.find(self.idle().await?, newest_first, count.saturating_sub(1), 1).await?;
        Ok(found.first().and_then(time_of).map(DateTime::to_system_time))
    }

    async fn ended_before(&self, before: SystemTime, from: Option<&str>, most: u32) -> PageResult {
        self.ensure_index().await?;
        let mut wanted = self.idle().await?;
        wanted.insert("updated_at", doc! { "$lt": DateTime::from_system_time(before) });
        time_pages::go_on(&mut wanted, APPENDED_AT, from);
        let found = self.find(wanted, time_pages::order(APPENDED_AT), 0, i64::from(most)).await?;
        let next = time_pages::next(&found, APPENDED_AT, most);
        Ok(EndedPage { items: found.iter().filter_map(item).collect(), next })
    }

    async fn ended_of(&self, user_id: &str, from: Option<&str>, most: u32) -> PageResult {
        let mut wanted = self.idle().await?;
        wanted.insert("user_id", user_id);
        wanted.insert("_id", doc! { "$gt": from.unwrap_or_default() });
        let found = self.find(wanted, doc! { "_id": 1 }, 0, i64::from(most)).await?;
        let last = found.last().filter(|_| found.len() >= most as usize);
        let next = last.and_then(|last| last.get_str("_id").ok()).map(str::to_owned);
        Ok(EndedPage { items: found.iter().filter_map(item).collect(), next })
    }

    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        let mut idle = self.idle().await?;
        idle.insert("_id", doc! { "$in": ids });
        Ok(answer(self.leased.documents.delete_many(idle).into_future()).await?.deleted_count)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        self.ensure_index().await?;
        let found = self.find(self.idle().await?, doc! { "updated_at": 1 }, 0, 1).await?;
        Ok(found.first().and_then(time_of).map(DateTime::to_system_time))
    }
}
