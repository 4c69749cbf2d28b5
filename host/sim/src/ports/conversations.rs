//! Conversations.

use std::time::{Duration, SystemTime};

use agent_core::ports::{
    ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Deletion, Renewal,
};
use agent_core::testing::TestConversations;
use agent_core::words::{Conversation, ConversationKey, ConversationKind, ConversationSummary, Turn};
use boxed_async::boxed_async;
use tokio::time::sleep;

use super::Ported;
use crate::faults::gate::Call;
use crate::faults::mixed;
use crate::faults::mutation::Mutation;

/// A key that outlasts its caller.
struct OwnedKey {
    user_id: String,
    kind: ConversationKind,
    id: String,
}

impl OwnedKey {
    fn of(key: ConversationKey<'_>) -> Self {
        Self { user_id: key.user_id.to_owned(), kind: key.kind, id: key.id.to_owned() }
    }

    fn key(&self) -> ConversationKey<'_> {
        ConversationKey { user_id: &self.user_id, kind: self.kind, id: &self.id }
    }
}

impl Ported<TestConversations> {
    /// How much later a turn comes that is written again. Where several runs wait for one conversation, the
    /// next one may have come and gone by then.
    fn late(&self, owner: &str) -> Duration {
        let world = &self.gate.world;
        let mut promises = world.promises.lock();
        let (is_first, salt) = (promises.writers.insert(owner.to_owned()), promises.writers.len() as u64);
        let is_late = !is_first && world.deployment.is_talkative && !world.is_quiet();
        Duration::from_millis(if is_late { mixed(world.seed, salt) % 4_000 } else { 0 })
    }
}

#[boxed_async]
impl ConversationStore for Ported<TestConversations> {
    async fn claim(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        terms: ClaimTerms,
    ) -> Result<ConversationClaim, ConversationError> {
        let (this, of, owner) = (self.clone(), OwnedKey::of(key), owner.to_owned());
        let claim = async move {
            let world = &this.gate.world;
            let claim = this.store.claim(of.key(), &owner, terms).await?;
            if claim == ConversationClaim::Busy {
                world.reached("a conversation was busy");
                if world.has(Mutation::ConversationGivenTwice) {
                    let kept = this.store.read(of.key()).await?;
                    return Ok(ConversationClaim::Claimed(kept.map(|kept| kept.turns).unwrap_or_default()));
                }
            }
            Ok(claim)
        };
        self.gate.write(Call::rare("conversation.claim", key.id), ConversationError::Store, claim).await
    }

    async fn renew(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        lease: Duration,
    ) -> Result<Renewal, ConversationError> {
        let (store, of, owner) = (self.store.clone(), OwnedKey::of(key), owner.to_owned());
        let renew = async move { store.renew(of.key(), &owner, lease).await };
        let call = Call { subject: key.id, ..Call::poll("conversation.renew") };
        self.gate.write(call, ConversationError::Store, renew).await
    }

    async fn settle(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        turns: &[Turn],
    ) -> Result<bool, ConversationError> {
        let late = self.late(owner);
        let (this, of) = (self.clone(), OwnedKey::of(key));
        let (owner, turns) = (owner.to_owned(), turns.to_vec());
        let settle = async move {
            sleep(late).await;
            let world = &this.gate.world;
            let is_bug = world.has(Mutation::TurnNotFenced) || world.has(Mutation::ConversationGivenTwice);
            let settled = this.store.settle(of.key(), &owner, &turns).await?;
            if !settled && is_bug {
                this.store.put(of.key(), &turns, "", None).await?;
                return Ok(true);
            }
            if !settled {
                world.reached("a turn was not the owner's to write any more");
            }
            world.check(run_service::invariants::turns(&turns));
            Ok(settled)
        };
        self.gate.write(Call::rare("conversation.settle", key.id), ConversationError::Store, settle).await
    }

    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> Result<(), ConversationError> {
        let (store, of, owner) = (self.store.clone(), OwnedKey::of(key), owner.to_owned());
        let release = async move { store.release(of.key(), &owner).await };
        self.gate.write(Call::step("conversation.release", key.id), ConversationError::Store, release).await
    }

    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: Option<u32>,
    ) -> Result<(), ConversationError> {
        self.store.put(key, turns, shown, most).await
    }

    async fn read(&self, key: ConversationKey<'_>) -> Result<Option<Conversation>, ConversationError> {
        let read = self.store.read(key);
        self.gate.pass(Call::step("conversation.read", key.id), ConversationError::Store, read).await
    }

    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> Result<Vec<ConversationSummary>, ConversationError> {
        self.store.list(user_id, limit, after).await
    }

    async fn delete(&self, key: ConversationKey<'_>) -> Result<Deletion, ConversationError> {
        self.store.delete(key).await
    }
}
