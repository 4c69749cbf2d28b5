//! A conversation that is named beside an answer to an approval request: the run becomes a turn of it when it
//! ends, wherever it was begun. A reader that leaves before that changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::words::{AgentResult, Job, Message, Principal, Turn};
use run_service::conversations::{ConversationRefusal, is_kept, said};
use run_service::streams::{Followed, RunEnd};
use tokio::time::sleep;

use super::super::head::now_ms;
use http_edge::variant_b::events::permit;
use http_edge::variant_b::state::Shared;

/// How often a conversation is claimed that another run holds, and how long it is waited in between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// The turn to be, for as long as somebody reads the run. Dropped before its end, it has a task read on.
pub(crate) struct Continued {
    turn: Arc<ContinuedTurn>,
    /// Whether the reader was told how the run ended, or that it waits again.
    is_over: AtomicBool,
}

/// A run that becomes a turn of a conversation.
pub(crate) struct ContinuedTurn {
    pub(crate) edge: Shared,
    /// Who has answered the approval request.
    pub(crate) by: Principal,
    /// The job that goes on with the run.
    pub(crate) job: Job,
    /// How many events of the run were there before the answer.
    pub(crate) seen: u64,
    /// The conversation, in the namespace of that user.
    pub(crate) conversation_id: String,
    /// What the caller said beside the newest message.
    pub(crate) own: Vec<Message>,
}

impl Continued {
    pub(crate) fn new(turn: ContinuedTurn) -> Self {
        Self { turn: Arc::new(turn), is_over: AtomicBool::new(false) }
    }

    /// Appends what the run came to, if that is kept. False when it should have been appended.
    pub(crate) async fn append(&self, result: &AgentResult) -> bool {
        let is_appended = self.turn.append(result).await;
        self.let_go();
        is_appended
    }

    /// Nobody has to read on.
    pub(crate) fn let_go(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Continued {
    /// The task counts among the streams of its user: a run may go on for long.
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let turn = Arc::clone(&self.turn);
        let Ok(permit) = permit(&turn.edge, turn.user_id()) else {
            tracing::warn!(
                run_id = turn.job.run_id,
                "a turn is not kept: the reader has left, and its user has too many streams"
            );
            return;
        };
        let conversations = turn.edge.variant.conversations.clone();
        let reading = async move {
            turn.read_on().await;
            drop(permit);
        };
        conversations.spawn("conversation-turn", Box::pin(reading));
    }
}

impl ContinuedTurn {
    fn user_id(&self) -> &str {
        self.by.user_id.as_deref().unwrap_or_default()
    }

    /// Appends the turn when the run ends. Nothing is appended when it waits again, or the service stops.
    async fn read_on(&self) {
        let variant = &self.edge.variant;
        let Some(streams) = &variant.streams else { return };
        let Some(following) = streams.follow_job(&self.job, self.seen) else { return };
        let mut following = streams.through_children(following, &variant.waits, &self.by);
        while let Some(followed) = following.next().await {
            if let Followed::Ended { end: RunEnd::Answer(answer), .. } = followed {
                self.append(&answer.result).await;
            }
        }
    }

    async fn append(&self, result: &AgentResult) -> bool {
        if !is_kept(result.stop_reason) {
            return true;
        }
        let conversations = &self.edge.variant.conversations;
        let mut tries = 0;
        let held = loop {
            tries += 1;
            let owner = uuid::Uuid::now_v7().simple().to_string();
            match conversations.hold(self.user_id(), &self.conversation_id, &owner).await {
                Err(ConversationRefusal::Busy) if tries < TRIES => sleep(PAUSE).await,
                held => break held,
            }
        };
        let appended = match held {
            // The run was begun in it, and its job has appended the turn.
            Ok(held) if held.turns().iter().any(|turn| turn.run_id == result.id) => {
                held.release().await;
                Ok(())
            }
            Ok(held) => {
                let (id, run_id) = (result.id.clone(), result.id.clone());
                held.append(Turn { id, run_id, at: now_ms(), ..said(&self.own, &result.messages) }).await
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(error) = &appended {
            tracing::warn!(%error, "an answer is given although its conversation does not know it");
        }
        appended.is_ok()
    }
}
