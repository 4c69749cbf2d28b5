//! Kept conversations: what was said in earlier runs of a user, put in front of the next one.
//!
//! ```text
//! conversations.hold(key, owner)  -> Held    claims it: one run at a time is part of a conversation
//! held.history(…)                            what was said before, in front of the run
//! held.while_running(run)                    the claim is renewed as long as the run goes on
//! held.append(turn) / held.release()         the run ended well / it did not
//! ```
//!
//! The owner of a claim is one attempt: a later attempt at the same job takes it over, and the one that was
//! replaced changes nothing from then on. A turn is appended once, by its id: the run of a job that was taken
//! up after its worker died finds its own turn if that was appended already. How a turn changes a
//! conversation is in `turns.rs`, without I/O.
//!
//! An id belongs to its user's namespace: users choose ids, so that of somebody else says nothing and hides
//! nothing, and the first request with an id begins the conversation.

mod held;
mod refusal;
mod turns;

use std::sync::Arc;
use std::time::SystemTime;

use agent_core::ports::{ConversationClaim, ConversationStore, Deletion, Spawn, TurnsResult};
use agent_core::words::{Conversation, ConversationKey, ConversationSummary, MOST_RESPONSES, Turn};
use futures::future::BoxFuture;

pub use held::Held;
pub use refusal::ConversationRefusal;
pub use turns::{MOST_TURN_BYTES, appended, in_front, is_kept, said, turn_bytes};

use self::held::Claim;

/// The conversation that a run is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InConversation {
    /// Id of the conversation, in the namespace of the run's user.
    pub id: String,
    /// Names the turn that the run makes; absent: the run's id does.
    pub turn_id: Option<String>,
    /// The last turn that the caller has seen, if the caller has looked: the run is refused when there is
    /// another one by now. The inner absence is a conversation without turns.
    pub seen: Option<Option<String>>,
}

impl InConversation {
    /// The conversation of a job.
    pub fn of_job(id: String) -> Self {
        Self { id, turn_id: None, seen: None }
    }
}

/// The conversations of a store. Clones are the same.
#[derive(Clone)]
pub struct Conversations {
    store: Arc<dyn ConversationStore>,
    /// Gives claims back whose run was dropped.
    spawn: Arc<dyn Spawn>,
}

impl Conversations {
    pub fn new(store: Arc<dyn ConversationStore>, spawn: Arc<dyn Spawn>) -> Self {
        Self { store, spawn }
    }

    /// Runs `work` beside its caller, as claims are given back. `name` is for the log.
    pub fn spawn(&self, name: &'static str, work: BoxFuture<'static, ()>) {
        self.spawn.spawn(name, work);
    }

    /// Claims a conversation of that user for `owner`, which no other attempt is. It is begun if there is
    /// none.
    pub async fn hold(&self, user_id: &str, id: &str, owner: &str) -> Result<Held, ConversationRefusal> {
        let claim = Claim {
            store: self.store.clone(),
            user_id: user_id.to_owned(),
            id: id.to_owned(),
            owner: owner.to_owned(),
        };
        let mut held = Held::new(claim, self.spawn.clone());
        match held.claim().claim().await {
            Ok(ConversationClaim::Claimed(turns)) => {
                held.turns = turns;
                Ok(held)
            }
            Ok(ConversationClaim::Busy) => {
                held.forget();
                Err(ConversationRefusal::Busy)
            }
            Ok(ConversationClaim::TooMany) => {
                held.forget();
                Err(ConversationRefusal::TooMany)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A conversation of that user. One whose first run is under way has no turns.
    pub async fn read(&self, user_id: &str, id: &str) -> TurnsResult<Option<Conversation>> {
        self.store.read(ConversationKey::conversation(user_id, id)).await
    }

    /// Conversations of that user, the one first that was last appended to. `after` is the last one of the
    /// page before.
    pub async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> TurnsResult<Vec<ConversationSummary>> {
        self.store.list(user_id, limit, after).await
    }

    /// Deletes a conversation of that user.
    pub async fn delete(&self, user_id: &str, id: &str) -> TurnsResult<Deletion> {
        self.store.delete(ConversationKey::conversation(user_id, id)).await
    }

    /// Keeps a response for that user, with everything that was said until then.
    pub async fn keep_response(&self, user_id: &str, id: &str, turns: &[Turn], shown: &str) -> TurnsResult {
        let most = Some(MOST_RESPONSES);
        self.store.put(ConversationKey::response(user_id, id), turns, shown, most).await
    }

    /// Keeps how a response ended that was kept before, unless it was deleted meanwhile.
    pub async fn keep_end_of_response(
        &self,
        user_id: &str,
        id: &str,
        turns: &[Turn],
        shown: &str,
    ) -> TurnsResult {
        self.store.put(ConversationKey::response(user_id, id), turns, shown, None).await
    }

    /// A response of that user.
    pub async fn response(&self, user_id: &str, id: &str) -> TurnsResult<Option<Conversation>> {
        self.store.read(ConversationKey::response(user_id, id)).await
    }

    /// Deletes a response of that user. Those that go on from it stay as they are.
    pub async fn delete_response(&self, user_id: &str, id: &str) -> TurnsResult<Deletion> {
        self.store.delete(ConversationKey::response(user_id, id)).await
    }
}
