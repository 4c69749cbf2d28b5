//! Keeping a response: whole, with everything that was said until then, so that it can be gone on from
//! whatever becomes of those before it.

use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::words::{AgentResult, Message, Turn};
use run_service::conversations::{Conversations, appended, is_kept, said};
use serde_json::Value;

/// Largest response that is kept, as JSON, in bytes. Fifty of a user are kept, each with up to 256 KiB of
/// turns beside it.
pub(super) const MOST_BYTES: usize = 256 << 10;

/// Keeps the response of one run.
pub(super) struct Keep {
    pub(super) conversations: Conversations,
    pub(super) user_id: String,
    /// What was said before.
    pub(super) turns: Vec<Turn>,
    /// What the client says beside the newest message.
    pub(super) own: Vec<Message>,
    /// Names the response.
    pub(super) id: String,
}

impl Keep {
    /// Keeps the response of a run that ended so, as its client is given it. Whether that worked.
    pub(super) async fn keep(&self, result: &AgentResult, shown: &Value) -> bool {
        let shown = shown.to_string();
        if !is_kept(result.stop_reason) || shown.len() > MOST_BYTES {
            return false;
        }
        let (id, run_id) = (self.id.clone(), result.id.clone());
        let turn = Turn { id, run_id, at: now_ms(), ..said(&self.own, &result.messages) };
        let turns = appended(self.turns.clone(), turn);
        let kept = self.conversations.keep_response(&self.user_id, &self.id, &turns, &shown).await;
        if let Err(error) = &kept {
            tracing::warn!(%error, "a response could not be kept");
        }
        kept.is_ok()
    }
}

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
