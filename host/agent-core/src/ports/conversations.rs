//! Kept conversations: who may append to one at this moment, and what was said in it.

use std::time::{Duration, SystemTime};

use boxed_async::boxed_async;

use super::lease::Renewal;
use crate::words::{Conversation, ConversationKey, ConversationSummary, MOST_CONVERSATIONS, Turn};

/// How long a claim of a conversation lasts unless it is renewed. The run of a job is taken up within 8 s
/// after its worker died, and takes over the claim of the attempt before.
pub const LEASE: Duration = Duration::from_secs(20);

/// Keeps conversations, for all replicas: each is claimed under a [lease](super::lease) by the run that is
/// part of it.
///
/// Every operation fails within a time limit of the store when that does not answer. None is
/// cancellation-safe: dropped, it may have been carried out or not.
#[boxed_async]
pub trait ConversationStore: Send + Sync {
    /// Claims a conversation for `owner`, which is begun if the user has none of that id and fewer than
    /// [`ClaimTerms::most`] of its kind; of several such claims at once each may begin one. The same owner
    /// may claim it again, and a later attempt [takes it over](super::lease::takes_over).
    async fn claim(&self, key: ConversationKey<'_>, owner: &str, terms: ClaimTerms) -> ClaimResult;

    /// Makes a claim last for `lease` from now.
    async fn renew(&self, key: ConversationKey<'_>, owner: &str, lease: Duration) -> TurnsResult<Renewal>;

    /// Writes the turns anew and ends the claim, in one step. False when `owner` has lost it: then nothing is
    /// changed.
    async fn settle(&self, key: ConversationKey<'_>, owner: &str, turns: &[Turn]) -> TurnsResult<bool>;

    /// Ends a claim and leaves the turns as they are. A conversation without one is gone then.
    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> TurnsResult;

    /// Keeps what nobody claims, whole: `turns`, and what was `shown` of it. What is there under that key is
    /// replaced, but for the time when it was begun. Beyond `most` of its kind those of the user go that were
    /// written longest ago; without that nothing is begun, so that what was deleted meanwhile stays deleted.
    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: Option<u32>,
    ) -> TurnsResult;

    /// A conversation with its turns, which may be none while its first run is under way.
    async fn read(&self, key: ConversationKey<'_>) -> TurnsResult<Option<Conversation>>;

    /// A user's conversations that have turns, the one first that was last appended to; of those of one time,
    /// by their [digest](ConversationKey::digest). `after` is the last one of the page before. Responses are
    /// not among them.
    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> TurnsResult<Vec<ConversationSummary>>;

    /// Deletes a conversation that nobody holds.
    async fn delete(&self, key: ConversationKey<'_>) -> TurnsResult<Deletion>;
}

/// On which terms a conversation is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTerms {
    /// How long the claim lasts unless it is renewed.
    pub lease: Duration,
    /// Most conversations of a user.
    pub most: u32,
}

impl Default for ClaimTerms {
    fn default() -> Self {
        Self { lease: LEASE, most: MOST_CONVERSATIONS }
    }
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum ConversationClaim {
    /// The owner holds it; these are its turns.
    Claimed(Vec<Turn>),
    /// Somebody else holds it.
    Busy,
    /// The user has as many as there may be.
    TooMany,
}

/// What became of a wish to delete a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The conversation is gone.
    Done,
    /// A run holds it.
    Busy,
    /// There is none.
    Unknown,
}

/// The result of an operation on a store of conversations.
pub type TurnsResult<T = ()> = Result<T, ConversationError>;

/// The result of a claim.
pub type ClaimResult = TurnsResult<ConversationClaim>;

/// Why the store could not do it. It holds no address, no secret and nothing that was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// The store failed or gave no answer, and says this.
    #[error("the store of conversations failed: {0}")]
    Store(String),
    /// A conversation is damaged, or a newer program wrote it: asking again does not help.
    #[error("a conversation cannot be read by this program")]
    Unreadable,
}
