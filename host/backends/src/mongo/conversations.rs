//! Kept conversations, a document each, under the digest of kind, user and id.
//!
//! A claim changes the document if nobody holds it, or makes it: of two who make one the second is told that
//! its key is taken. Times are the server's. What is written after a claim names its owner, so whoever has
//! lost it changes nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::lease::attempts_of;
use agent_core::ports::{
    ClaimResult, ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Deletion, Renewal,
    TurnsResult,
};
use agent_core::words::{Conversation, ConversationKey, ConversationKind, ConversationSummary, Turn};
use boxed_async::boxed_async;
use futures::TryStreamExt as _;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::error::{ANSWER_TIMEOUT, QueryError, QueryResult, answer};
use super::indexes::make;
use super::lease::{LeasedDocuments, after, is_taken};

const COLLECTION: &str = "conversations";

/// Most documents that are removed at once because there are too many of a user.
const MOST_TRIMMED: i64 = 1_000;

/// Nobody holds it.
const FREE: DateTime = DateTime::from_millis(0);

/// Keeps conversations in MongoDB.
#[derive(Debug, Clone)]
pub(super) struct MongoConversations {
    leased: LeasedDocuments,
    documents: Collection<ConversationDocument>,
    index: Arc<OnceCell<()>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ConversationDocument {
    #[serde(rename = "_id")]
    key: String,
    kind: String,
    user_id: String,
    id: String,
    turns: i64,
    /// As JSON text, which holds what documents do not.
    body: String,
    shown: Option<String>,
    owner: Option<String>,
    leased_until: DateTime,
    created_at: DateTime,
    updated_at: DateTime,
}

/// The leases of conversations.
pub(super) fn leased(database: &Database) -> LeasedDocuments {
    LeasedDocuments::new(database, COLLECTION, "owner", "leased_until")
}

/// What a list needs of one.
#[derive(Debug, Deserialize)]
struct SummaryDocument {
    id: String,
    turns: i64,
    created_at: DateTime,
    updated_at: DateTime,
}

impl ConversationDocument {
    fn new(key: ConversationKey<'_>, now: DateTime) -> Self {
        Self {
            key: key.digest(),
            kind: key.kind.as_str().to_owned(),
            user_id: key.user_id.to_owned(),
            id: key.id.to_owned(),
            turns: 0,
            body: "[]".to_owned(),
            shown: None,
            owner: None,
            leased_until: FREE,
            created_at: now,
            updated_at: now,
        }
    }

    fn into_conversation(self, now: DateTime) -> TurnsResult<Conversation> {
        Ok(Conversation {
            id: self.id,
            turns: read_turns(&self.body)?,
            is_busy: self.leased_until > now,
            created_at: self.created_at.to_system_time(),
            updated_at: self.updated_at.to_system_time(),
            shown: self.shown,
        })
    }
}

impl MongoConversations {
    pub(super) fn new(database: &Database) -> Self {
        Self { leased: leased(database), documents: database.collection(COLLECTION), index: Arc::default() }
    }

    /// Makes the index that finds a user's, if it is not there. Several processes may at once.
    async fn ensure_index(&self) -> QueryResult {
        let keys = || vec![doc! { "user_id": 1 }];
        self.index.get_or_try_init(|| make(&self.documents, keys())).await.map(drop)
    }

    async fn find(&self, key: ConversationKey<'_>) -> QueryResult<Option<ConversationDocument>> {
        answer(self.documents.find_one(doc! { "_id": key.digest() }).into_future()).await
    }

    /// Begins a conversation for its first owner.
    async fn begin(&self, key: ConversationKey<'_>, owner: &str, terms: ClaimTerms) -> ClaimResult {
        self.ensure_index().await?;
        let now = self.leased.now().await?;
        let theirs = doc! { "user_id": key.user_id, "kind": key.kind.as_str() };
        // What dead processes left behind before anything was said.
        let mut empty = self.leased.free(now);
        empty.extend(theirs.clone());
        empty.insert("turns", 0_i64);
        answer(self.documents.delete_many(empty).into_future()).await?;
        if self.keys(theirs, doc! { "_id": 1 }, 0, i64::from(terms.most)).await?.len() >= terms.most as usize
        {
            return Ok(ConversationClaim::TooMany);
        }
        let begun = ConversationDocument {
            owner: Some(owner.to_owned()),
            leased_until: after(now, terms.lease),
            ..ConversationDocument::new(key, now)
        };
        match answer(self.documents.insert_one(begun).into_future()).await {
            Ok(_inserted) => Ok(ConversationClaim::Claimed(vec![])),
            Err(error) if is_taken(&error) => Ok(ConversationClaim::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes what a user has of a kind beyond so many, written longest ago.
    async fn trim(&self, key: ConversationKey<'_>, most: u32) -> QueryResult {
        let theirs = doc! { "user_id": key.user_id, "kind": key.kind.as_str() };
        let newest_first = doc! { "updated_at": -1, "_id": -1 };
        let old = self.keys(theirs, newest_first, u64::from(most), MOST_TRIMMED).await?;
        if !old.is_empty() {
            let removed = self.documents.delete_many(doc! { "_id": { "$in": old } });
            answer(removed.into_future()).await?;
        }
        Ok(())
    }

    async fn keys(&self, wanted: Document, sort: Document, skip: u64, most: i64) -> QueryResult<Vec<String>> {
        let documents: Collection<Document> = self.documents.clone_with_type();
        let found: Vec<Document> = answer(async {
            let found = documents.find(wanted).sort(sort).skip(skip).limit(most).max_time(ANSWER_TIMEOUT);
            found.projection(doc! { "_id": 1 }).await?.try_collect().await
        })
        .await?;
        Ok(found.iter().filter_map(|document| document.get_str("_id").ok()).map(str::to_owned).collect())
    }
}

#[boxed_async]
impl ConversationStore for MongoConversations {
    async fn claim(&self, key: ConversationKey<'_>, owner: &str, terms: ClaimTerms) -> ClaimResult {
        let now = self.leased.now().await?;
        // A claim of this owner, or of an earlier attempt at the same job, is replaced.
        let replaced = doc! { "$gte": attempts_of(owner), "$lte": owner };
        let free = vec![doc! { "owner": replaced }, self.leased.free(now)];
        let claimed = self.leased.claimed(owner, now, terms.lease);
        if !self.leased.change(doc! { "_id": key.digest(), "$or": free }, claimed).await? {
            return match self.find(key).await? {
                Some(_held) => Ok(ConversationClaim::Busy),
                None => self.begin(key, owner, terms).await,
            };
        }
        match self.find(key).await? {
            Some(held) if held.owner.as_deref() == Some(owner) => {
                Ok(ConversationClaim::Claimed(read_turns(&held.body)?))
            }
            // The claim's lease ended, or the conversation was deleted, since the claim.
            Some(_) | None => Ok(ConversationClaim::Busy),
        }
    }

    async fn renew(&self, key: ConversationKey<'_>, owner: &str, lease: Duration) -> TurnsResult<Renewal> {
        Ok(self.leased.renew(&key.digest(), owner, lease).await?)
    }

    async fn settle(&self, key: ConversationKey<'_>, owner: &str, turns: &[Turn]) -> TurnsResult<bool> {
        let now = self.leased.now().await?;
        let settled = doc! {
            "body": write_turns(turns)?, "turns": count(turns), "updated_at": now,
            "owner": Bson::Null, "leased_until": FREE,
        };
        Ok(self.leased.change(self.leased.held(&key.digest(), owner), settled).await?)
    }

    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> TurnsResult {
        let held = self.leased.held(&key.digest(), owner);
        let mut empty = held.clone();
        empty.insert("turns", 0_i64);
        answer(self.documents.delete_many(empty).into_future()).await?;
        self.leased.change(held, doc! { "owner": Bson::Null, "leased_until": FREE }).await?;
        Ok(())
    }

    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: Option<u32>,
    ) -> TurnsResult {
        self.ensure_index().await?;
        let now = self.leased.now().await?;
        let kept = doc! {
            "body": write_turns(turns)?, "turns": count(turns), "shown": shown, "updated_at": now,
        };
        let begun = doc! {
            "kind": key.kind.as_str(), "user_id": key.user_id, "id": key.id,
            "owner": Bson::Null, "leased_until": FREE, "created_at": now,
        };
        let changes = doc! { "$set": kept, "$setOnInsert": begun };
        let put = self.documents.update_one(doc! { "_id": key.digest() }, changes).upsert(most.is_some());
        answer(put.into_future()).await?;
        // The response is kept: what could not be deleted is deleted with the next one.
        if let Some(most) = most
            && let Err(error) = self.trim(key, most).await
        {
            tracing::debug!(%error, "old responses could not be deleted");
        }
        Ok(())
    }

    async fn read(&self, key: ConversationKey<'_>) -> TurnsResult<Option<Conversation>> {
        let Some(document) = self.find(key).await? else { return Ok(None) };
        let now = self.leased.now().await?;
        document.into_conversation(now).map(Some)
    }

    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> TurnsResult<Vec<ConversationSummary>> {
        let kind = ConversationKind::Conversation.as_str();
        let mut wanted = doc! { "user_id": user_id, "kind": kind, "turns": { "$gt": 0_i64 } };
        if let Some((at, id)) = after {
            let at = DateTime::from_system_time(at);
            let key = ConversationKey::conversation(user_id, id).digest();
            let later =
                vec![doc! { "updated_at": { "$lt": at } }, doc! { "updated_at": at, "_id": { "$gt": key } }];
            wanted.insert("$or", later);
        }
        let documents: Collection<SummaryDocument> = self.documents.clone_with_type();
        let found: Vec<SummaryDocument> = answer(async {
            let found = documents.find(wanted).sort(doc! { "updated_at": -1, "_id": 1 });
            let fields = doc! { "id": 1, "turns": 1, "created_at": 1, "updated_at": 1 };
            let found = found.limit(i64::from(limit)).projection(fields).max_time(ANSWER_TIMEOUT);
            found.await?.try_collect().await
        })
        .await?;
        let summary = |found: SummaryDocument| ConversationSummary {
            id: found.id,
            turns: found.turns.unsigned_abs(),
            created_at: found.created_at.to_system_time(),
            updated_at: found.updated_at.to_system_time(),
        };
        Ok(found.into_iter().map(summary).collect())
    }

    async fn delete(&self, key: ConversationKey<'_>) -> TurnsResult<Deletion> {
        let mut idle = self.leased.free(self.leased.now().await?);
        idle.insert("_id", key.digest());
        let deleted = answer(self.documents.delete_many(idle).into_future()).await?.deleted_count;
        match deleted {
            0 if self.find(key).await?.is_some() => Ok(Deletion::Busy),
            0 => Ok(Deletion::Unknown),
            _ => Ok(Deletion::Done),
        }
    }
}

fn write_turns(turns: &[Turn]) -> TurnsResult<String> {
    serde_json::to_string(turns).map_err(|error| ConversationError::Store(error.to_string()))
}

fn read_turns(body: &str) -> TurnsResult<Vec<Turn>> {
    serde_json::from_str(body).map_err(|_error| ConversationError::Unreadable)
}

fn count(turns: &[Turn]) -> i64 {
    i64::try_from(turns.len()).unwrap_or(i64::MAX)
}

impl From<QueryError> for ConversationError {
    fn from(error: QueryError) -> Self {
        Self::Store(error.to_string())
    }
}
