//! Keeping a response: whole, with everything that was said until then, so that it can be gone on from
//! whatever becomes of those before it.

use agent_core::words::{AgentResult, Message, Turn};
use run_service::conversations::{Conversations, appended, is_kept, said};
use run_service::layers::RateCheck;
use serde_json::Value;

use super::super::head::now_ms;
use super::continued::Continued;
use super::conversation_state::Place;
use super::last_response::{LastResponse, OfConnection};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::state::Shared;

/// Largest response that is kept, as JSON, in bytes. Fifty of a user are kept, each with up to 256 KiB of
/// turns beside it.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// Keeps the response of one run.
pub(crate) struct Keep {
    keeper: Keeper,
    user_id: String,
    said: SaidBefore,
    /// Names the response.
    id: String,
    /// The conversation that goes on with the run, if its caller has named one since it began.
    conversation: Option<Continued>,
    /// The cache answers before it is known whether the caller is within its limits.
    rate_check: Option<RateCheck>,
}

/// What was said before the newest message of a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct SaidBefore {
    pub(crate) turns: Vec<Turn>,
    /// What the client says beside the newest message.
    pub(crate) own: Vec<Message>,
}

/// Where a response is kept.
enum Keeper {
    Nowhere,
    Store(Conversations),
    /// A response that is not to be stored is kept for the next one of its connection.
    Connection(OfConnection),
}

impl Keep {
    pub(crate) fn of(edge: &Shared, asking: &Asking, place: &Place, said: SaidBefore, id: String) -> Self {
        let keeper = match (place.store, &place.connection) {
            (true, _) => Keeper::Store(edge.variant.conversations.clone()),
            (false, Some(connection)) => Keeper::Connection(connection.clone()),
            (false, None) => Keeper::Nowhere,
        };
        let (user_id, rate_check) = (asking.caller.id().to_owned(), asking.rate_check.clone());
        Self { keeper, user_id, said, id, conversation: None, rate_check }
    }

    /// The run becomes a turn of that conversation when it ends, unless it is one already.
    pub(crate) fn continuing(self, conversation: Option<Continued>) -> Self {
        Self { conversation, ..self }
    }

    /// The end of a run becomes a turn of the conversation that was named for it. False when it should have.
    pub(crate) async fn append_turn(&self, result: &AgentResult) -> bool {
        match &self.conversation {
            Some(continued) => continued.append(result).await,
            None => true,
        }
    }

    /// The run waits once more: the next answer names a conversation for it, or none.
    pub(crate) fn waits_again(&self) {
        if let Some(continued) = &self.conversation {
            continued.let_go();
        }
    }

    /// Keeps the response of a run that ended so, as its client is given it. Whether that worked.
    pub(crate) async fn keep(&self, result: &AgentResult, shown: &Value) -> bool {
        let shown = shown.to_string();
        if !is_kept(result.stop_reason) || shown.len() > MOST_BYTES {
            return false;
        }
        // What is refused pushes no other response out.
        if let Some(check) = &self.rate_check
            && !check.clone().passes().await
        {
            return false;
        }
        let (id, run_id) = (self.id.clone(), result.id.clone());
        let turn = Turn { id, run_id, at: now_ms(), ..said(&self.said.own, &result.messages) };
        let turns = appended(self.said.turns.clone(), turn);
        let conversations = match &self.keeper {
            Keeper::Nowhere => return false,
            Keeper::Store(conversations) => conversations,
            Keeper::Connection(connection) => {
                connection.keep(LastResponse { id: self.id.clone(), turns, shown });
                return true;
            }
        };
        let kept = conversations.keep_response(&self.user_id, &self.id, &turns, &shown).await;
        if let Err(error) = &kept {
            tracing::warn!(%error, "a response could not be kept");
        }
        kept.is_ok()
    }
}
