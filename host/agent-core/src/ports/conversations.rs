//! Kept conversations: who may append to one at this moment, and what was said in it.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::journal::Epoch;
use crate::words::{Conversation, ConversationKey, ConversationSummary, MOST_CONVERSATIONS, Turn};

/// How long a claim of a conversation lasts unless it is renewed. The run of a job is taken up within 8 s
/// after its worker died, and takes over the claim of the attempt before.
pub const LEASE: Duration = Duration::from_secs(20);

/// Separates the run from the epoch in the owner of an attempt at a job.
const BEFORE_EPOCH: char = '#';

/// The owner of the claim that an attempt at a job makes: `<run id>#<epoch>`. All attempts share the run, and
/// each has an epoch of its own, which has 20 digits: such texts compare as their numbers do.
pub fn owner_of_attempt(run_id: &str, epoch: Epoch) -> String {
    format!("{run_id}{BEFORE_EPOCH}{:020}", epoch.0)
}

/// What the owners of all attempts at one job begin with, up to the epoch. Of any other owner it is the
/// whole.
pub fn attempts_of(owner: &str) -> &str {
    owner.rfind(BEFORE_EPOCH).and_then(|end| owner.get(..=end)).unwrap_or(owner)
}

/// Whether `owner` may claim what `holder` holds: as the same owner, or as a later attempt at the same job,
/// whose earlier attempt was replaced.
pub fn takes_over(owner: &str, holder: &str) -> bool {
    holder.starts_with(attempts_of(owner)) && holder <= owner
}

/// Keeps conversations, for all replicas.
///
/// Every operation fails within a time limit of the store when that does not answer. None is
/// cancellation-safe: dropped, it may have been carried out or not.
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// Claims a conversation for `owner`, which is begun if the user has none of that id and fewer than
    /// [`ClaimTerms::most`] of its kind; of several such claims at once each may begin one. The same owner
    /// may claim it again, and a later attempt [takes it over](takes_over). From then on the earlier one has
    /// lost it: everything else compares the whole owner.
    async fn claim(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        terms: ClaimTerms,
    ) -> Result<ConversationClaim, ConversationError>;

    /// Makes a claim last for `lease` from now. False when `owner` has lost it.
    async fn renew(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        lease: Duration,
    ) -> Result<bool, ConversationError>;

    /// Writes the turns anew and gives the claim back, in one step. False when `owner` has lost it: then
    /// nothing is changed. A claim that has ended but that nobody else has taken is still the owner's.
    async fn settle(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        turns: &[Turn],
    ) -> Result<bool, ConversationError>;

    /// Gives a claim back as it was. A conversation without a turn is gone then.
    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> Result<(), ConversationError>;

    /// Keeps what nobody claims, whole: `turns`, and what was `shown` of it. What is there under that key is
    /// replaced. Beyond `most` of its kind the user's oldest go.
    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: u32,
    ) -> Result<(), ConversationError>;

    /// A conversation with its turns, which may be none while its first run is under way.
    async fn read(&self, key: ConversationKey<'_>) -> Result<Option<Conversation>, ConversationError>;

    /// A user's conversations that have turns, the one first that was last appended to; of those of one time,
    /// by their [digest](ConversationKey::digest). `after` is the last one of the page before. Responses are
    /// not among them.
    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> Result<Vec<ConversationSummary>, ConversationError>;

    /// Deletes a conversation that nobody holds.
    async fn delete(&self, key: ConversationKey<'_>) -> Result<Deletion, ConversationError>;
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

/// Why the store could not do it. It holds no address, no secret and nothing that was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of conversations failed: {0}")]
pub struct ConversationError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_attempt_takes_over_and_nobody_else() {
        let attempt = |run, epoch| owner_of_attempt(run, Epoch(epoch));
        for (owner, holder, may) in [
            (attempt("run_1", 10), attempt("run_1", 9), true),
            (attempt("run_1", 10), attempt("run_1", 10), true),
            (attempt("run_1", 9), attempt("run_1", 10), false),
            (attempt("run_1", u64::MAX), attempt("run_1", 1), true),
            (attempt("run_1", 10), attempt("run_2", 9), false),
            (attempt("run_1", 10), attempt("run_11", 9), false),
            (attempt("run_1", 10), "run_1".to_owned(), false),
            ("run_1".to_owned(), attempt("run_1", 10), false),
            ("a".to_owned(), "a".to_owned(), true),
            ("ab".to_owned(), "a".to_owned(), false),
            ("a".to_owned(), "ab".to_owned(), false),
        ] {
            assert_eq!(takes_over(&owner, &holder), may, "{owner} of {holder}");
        }
    }
}
