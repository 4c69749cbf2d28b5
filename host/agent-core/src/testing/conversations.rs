//! A store of conversations that keeps everything in memory, and fails on demand. Its leases go by tokio's
//! time, so that a test may pause and advance it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boxed_async::boxed_async;
use tokio::time::Instant;

use super::{Switch, clock};
use crate::ports::lease::Lease;
use crate::ports::{
    ClaimResult, ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Deletion, Renewal,
    TurnsResult,
};
use crate::words::{Conversation, ConversationKey, ConversationKind, ConversationSummary, Turn};

/// Conversations in memory.
#[derive(Debug, Default)]
pub struct TestConversations {
    /// Breaks it.
    pub switch: Switch,
    kept: Mutex<HashMap<String, StoredConversation>>,
}

#[derive(Debug, Clone)]
struct StoredConversation {
    user_id: String,
    kind: ConversationKind,
    conversation: Conversation,
    lease: Lease,
}

impl StoredConversation {
    fn new(key: ConversationKey<'_>) -> Self {
        let now = now();
        let conversation = Conversation {
            id: key.id.to_owned(),
            turns: vec![],
            is_busy: false,
            created_at: now,
            updated_at: now,
            shown: None,
        };
        Self { user_id: key.user_id.to_owned(), kind: key.kind, conversation, lease: Lease::default() }
    }

    fn is_of(&self, user_id: &str, kind: ConversationKind) -> bool {
        self.user_id == user_id && self.kind == kind
    }

    fn is_busy(&self) -> bool {
        self.lease.is_held(Instant::now())
    }

    /// Nobody holds it, and nothing was said in it.
    fn is_nothing(&self) -> bool {
        !self.is_busy() && self.conversation.turns.is_empty()
    }
}

impl TestConversations {
    async fn check(&self) -> TurnsResult {
        self.switch.check().await.map_err(ConversationError::Store)
    }
}

#[boxed_async]
impl ConversationStore for TestConversations {
    async fn claim(&self, key: ConversationKey<'_>, owner: &str, terms: ClaimTerms) -> ClaimResult {
        self.check().await?;
        let mut all = self.kept.lock();
        if !all.contains_key(&key.digest()) {
            all.retain(|_, kept| !(kept.is_of(key.user_id, key.kind) && kept.is_nothing()));
            if all.values().filter(|kept| kept.is_of(key.user_id, key.kind)).count() >= terms.most as usize {
                return Ok(ConversationClaim::TooMany);
            }
        }
        let kept = all.entry(key.digest()).or_insert_with(|| StoredConversation::new(key));
        if !kept.lease.claim(owner, terms.lease, Instant::now()) {
            return Ok(ConversationClaim::Busy);
        }
        Ok(ConversationClaim::Claimed(kept.conversation.turns.clone()))
    }

    async fn renew(&self, key: ConversationKey<'_>, owner: &str, lease: Duration) -> TurnsResult<Renewal> {
        self.check().await?;
        let mut all = self.kept.lock();
        let kept = all.get_mut(&key.digest());
        Ok(kept.map_or(Renewal::Lost, |kept| kept.lease.renew(owner, lease, Instant::now())))
    }

    async fn settle(&self, key: ConversationKey<'_>, owner: &str, turns: &[Turn]) -> TurnsResult<bool> {
        self.check().await?;
        let mut all = self.kept.lock();
        let Some(kept) = all.get_mut(&key.digest()) else { return Ok(false) };
        if !kept.lease.end(owner) {
            return Ok(false);
        }
        kept.conversation.turns = turns.to_vec();
        kept.conversation.updated_at = now();
        Ok(true)
    }

    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> TurnsResult {
        self.check().await?;
        let mut all = self.kept.lock();
        if all.get_mut(&key.digest()).is_some_and(|kept| kept.lease.end(owner) && kept.is_nothing()) {
            all.remove(&key.digest());
        }
        Ok(())
    }

    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: Option<u32>,
    ) -> TurnsResult {
        self.check().await?;
        let mut all = self.kept.lock();
        if most.is_none() && !all.contains_key(&key.digest()) {
            return Ok(());
        }
        let kept = all.entry(key.digest()).or_insert_with(|| StoredConversation::new(key));
        kept.conversation.turns = turns.to_vec();
        kept.conversation.shown = Some(shown.to_owned());
        kept.conversation.updated_at = now();
        let theirs = all.iter().filter(|(_, kept)| kept.is_of(key.user_id, key.kind));
        let mut theirs: Vec<_> =
            theirs.map(|(digest, kept)| (kept.conversation.updated_at, digest.clone())).collect();
        theirs.sort_unstable();
        for (_, digest) in theirs.iter().rev().skip(most.map_or(usize::MAX, |most| most as usize)) {
            all.remove(digest);
        }
        Ok(())
    }

    async fn read(&self, key: ConversationKey<'_>) -> TurnsResult<Option<Conversation>> {
        self.check().await?;
        let all = self.kept.lock();
        let read =
            |kept: &StoredConversation| Conversation { is_busy: kept.is_busy(), ..kept.conversation.clone() };
        Ok(all.get(&key.digest()).map(read))
    }

    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> TurnsResult<Vec<ConversationSummary>> {
        self.check().await?;
        let digest = |id: &str| ConversationKey::conversation(user_id, id).digest();
        let after = after.map(|(at, id)| (std::cmp::Reverse(at), digest(id)));
        let all = self.kept.lock();
        let theirs = all.values().filter(|kept| kept.is_of(user_id, ConversationKind::Conversation));
        let mut theirs: Vec<_> = theirs
            .map(|kept| &kept.conversation)
            .filter(|kept| !kept.turns.is_empty())
            .map(|kept| ((std::cmp::Reverse(kept.updated_at), digest(&kept.id)), kept))
            .filter(|(place, _)| after.as_ref().is_none_or(|after| place > after))
            .collect();
        theirs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let summary = |kept: &Conversation| ConversationSummary {
            id: kept.id.clone(),
            turns: kept.turns.len() as u64,
            created_at: kept.created_at,
            updated_at: kept.updated_at,
        };
        Ok(theirs.into_iter().take(limit as usize).map(|(_, kept)| summary(kept)).collect())
    }

    async fn delete(&self, key: ConversationKey<'_>) -> TurnsResult<Deletion> {
        self.check().await?;
        let mut all = self.kept.lock();
        let Some(kept) = all.get(&key.digest()) else { return Ok(Deletion::Unknown) };
        if kept.is_busy() {
            return Ok(Deletion::Busy);
        }
        all.remove(&key.digest());
        Ok(Deletion::Done)
    }
}

/// To the millisecond, as other stores keep it.
fn now() -> SystemTime {
    let since = clock::store_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
