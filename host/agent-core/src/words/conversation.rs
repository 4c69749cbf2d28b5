//! Kept conversations: what was said in earlier runs of a user, put in front of the next one.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Message;

/// Most characters of a conversation's id, which its user chooses.
pub const LONGEST_CONVERSATION_ID: usize = 64;

/// Most turns of a conversation. Of more the oldest are left out: twice as many messages are what a history
/// may have.
pub const MOST_TURNS: usize = 100;

/// Most bytes of a conversation's turns as JSON. Of more the oldest turns are left out.
pub const MOST_CONVERSATION_BYTES: usize = 256 * 1024;

/// Most conversations of a user. One more is refused until the user deletes one. Each has up to
/// [`MOST_CONVERSATION_BYTES`]: all of a user's take up to 37.5 MiB.
pub const MOST_CONVERSATIONS: u32 = 150;

/// Most responses of a user that are kept (`/v1/responses`). With one more the oldest goes. Each has the
/// turns of a conversation beside itself, which is up to 256 KiB: all of a user's take up to 25 MiB.
pub const MOST_RESPONSES: u32 = 50;

/// Whether a text may be a conversation's id: letters and digits of ASCII, `.`, `_`, `-`, a letter or digit
/// first. Such an id stands as it is in paths, logs and columns.
pub fn is_conversation_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        && id.len() <= LONGEST_CONVERSATION_ID
}

/// What is kept under an id. The ids of one kind say nothing about those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConversationKind {
    /// A conversation that goes on: its user names it, one run at a time appends to it.
    Conversation,
    /// A response to a client of OpenAI, with everything that was said until then. It never changes.
    Response,
}

impl ConversationKind {
    /// As it stands in stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Response => "response",
        }
    }
}

/// Which conversation: each user has a namespace of ids of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConversationKey<'a> {
    pub user_id: &'a str,
    pub kind: ConversationKind,
    /// Id of the conversation or response, [`is_conversation_id`].
    pub id: &'a str,
}

impl<'a> ConversationKey<'a> {
    /// Key of that user's conversation of that id.
    pub fn conversation(user_id: &'a str, id: &'a str) -> Self {
        Self { user_id, kind: ConversationKind::Conversation, id }
    }

    /// Key of that user's response of that id.
    pub fn response(user_id: &'a str, id: &'a str) -> Self {
        Self { user_id, kind: ConversationKind::Response, id }
    }

    /// Hex SHA-256 of all of it: the key in stores, whatever characters the user's id has.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.kind.as_str(), self.user_id, self.id] {
            // With its length before it, no part can be read as the end of another.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        format!("{:x}", hash.finalize())
    }
}

/// One run's part of a conversation, or what a client added to it without a run. One without messages keeps a
/// conversation in which nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Names the turn within its conversation, so that it is appended once: the run, or the idempotency key
    /// under which the request is carried out, perhaps in several runs.
    pub id: String,
    /// Empty when no run made it.
    pub run_id: String,
    /// When it ended, in milliseconds since 1970.
    pub at: u64,
    /// What its caller said, and the transcript of the run. No instructions: those are said anew with every
    /// run.
    pub messages: Vec<Message>,
    /// How many of the messages are what its caller said; the others are the run's own. Absent in what
    /// earlier releases have kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<usize>,
    /// Ids of items that a client has deleted while others said the same: those keep theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// What a client attached to the conversation. The newest turn has it, all others have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// A conversation as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub id: String,
    /// The turns that are kept, the oldest first.
    pub turns: Vec<Turn>,
    /// Whether a run holds it at this moment.
    pub is_busy: bool,
    /// When its first run began.
    pub created_at: SystemTime,
    /// When its last turn was appended.
    pub updated_at: SystemTime,
    /// Of a response: the object that its client was given, as JSON.
    pub shown: Option<String>,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    pub id: String,
    /// How many turns are kept.
    pub turns: u64,
    /// When its first run began.
    pub created_at: SystemTime,
    /// When its last turn was appended.
    pub updated_at: SystemTime,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        let longest = "a".repeat(LONGEST_CONVERSATION_ID);
        for id in ["a", "7", "trip-2026.11_v2", "conv_0190", longest.as_str()] {
            assert!(is_conversation_id(id), "{id}");
        }
        let too_long = "a".repeat(LONGEST_CONVERSATION_ID + 1);
        for id in ["", "-a", ".", "..", "_", "a b", "a/b", "é", "a\0", "a\n", too_long.as_str()] {
            assert!(!is_conversation_id(id), "{id:?}");
        }
    }

    #[test]
    fn every_user_and_kind_has_ids_of_its_own() {
        let keys = [
            ConversationKey::conversation("u1", "a"),
            ConversationKey::conversation("u", "1a"),
            ConversationKey::conversation("u2", "a"),
            ConversationKey::response("u1", "a"),
        ];
        let digests: HashSet<_> = keys.iter().map(ConversationKey::digest).collect();
        assert_eq!(digests.len(), keys.len());
        assert!(digests.iter().all(|digest| digest.len() == 64));
    }
}
