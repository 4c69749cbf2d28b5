//! Why a conversation cannot be gone on with.

use agent_core::ports::ConversationError;
use agent_core::words::MOST_CONVERSATIONS;

/// Why a conversation cannot be gone on with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationRefusal {
    /// Another run is part of it at this moment.
    #[error("another run is part of the conversation at this moment")]
    Busy,
    /// Another run has appended to it since the caller looked.
    #[error("the conversation was gone on with meanwhile")]
    Changed,
    /// The user has as many as there may be.
    #[error("the user has {MOST_CONVERSATIONS} conversations, and no more are kept: delete one")]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(ConversationError),
    /// What is kept of it cannot be read.
    #[error(transparent)]
    Unreadable(ConversationError),
}

impl From<ConversationError> for ConversationRefusal {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Unreadable => Self::Unreadable(error),
            ConversationError::Store(_) => Self::Store(error),
        }
    }
}
