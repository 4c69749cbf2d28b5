//! Runs that are part of a kept conversation: what was said before stands in front of them, and what they
//! come to is appended.

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::ports::ConversationError;
use agent_core::ports::lease::owner_of_attempt;
use agent_core::words::Turn;
use boxed_async::boxed_async;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::{Ask, Invoke, InvokeError, JsonAnswer, RunAnswer};
use crate::clock;
use crate::conversations::{ConversationRefusal, Conversations, InConversation, in_front, is_kept, said};
use crate::held_lease::new_owner;

/// How long appending a turn may take beyond the time that its run could have taken.
const APPEND_GRACE: Duration = Duration::from_secs(5);

/// Puts what was said before in front of a run that is part of a conversation, and appends its turn when it
/// ends well.
///
/// It stands outside of the cache, whose key has the history in it, and outside of what is shared with
/// others: a result from the cache is a turn as well. A run that is part of none passes by.
pub struct ConversationTurns<I> {
    inner: I,
    conversations: Conversations,
    limit: Duration,
}

impl<I: Invoke> ConversationTurns<I> {
    /// Runs of `inner` in these conversations. A run may take `limit`.
    pub fn new(inner: I, conversations: Conversations, limit: Duration) -> Self {
        Self { inner, conversations, limit }
    }

    async fn go_on(&self, mut ask: Ask, conversation: InConversation) -> Result<RunAnswer, InvokeError> {
        let until = Instant::now() + self.limit;
        // A caller who is over the limits neither claims nor begins a conversation.
        if let Some(check) = ask.rate_check.take()
            && !check.passes().await
        {
            return Err(InvokeError::OverLimit);
        }
        let user_id = ask.principal.user_id.clone().unwrap_or_default();
        ask.control.conversation_id = Some(conversation.id.clone());
        let turn_id = conversation.turn_id.unwrap_or_else(|| ask.run_id.clone());
        let held = self.conversations.hold(&user_id, &conversation.id, &owner(&ask)).await?;
        let before = held.turns_before(&turn_id);
        if let Some(seen) = conversation.seen
            && before.last().map(|turn| &turn.id) != seen.as_ref()
        {
            held.release().await;
            return Err(ConversationRefusal::Changed.into());
        }
        let own = std::mem::take(&mut ask.options.history);
        ask.options.history = in_front(before, &own);
        ask.control.own_history.clone_from(&own);
        let (run_id, is_job) = (ask.run_id.clone(), ask.claim.is_some());
        let began_behind_turns = ask.control.began_behind_turns.clone();
        let mut answer = held.while_running(self.inner.invoke(ask)).await;
        match &mut answer {
            // The turn's run has waited meanwhile, or its worker was killed.
            Ok(_) if began_behind_turns.is_set() && held.turns().is_empty() => {
                info!(run_id, "a turn is not kept: its conversation was deleted during the run");
                held.release().await;
            }
            Ok(answer) if is_kept(answer.result.stop_reason) => {
                let at = clock::millis();
                let turn = Turn { id: turn_id, run_id, at, ..said(&own, &answer.result.messages) };
                let appending = held.append(turn);
                match in_time(appending, until).await {
                    Ok(()) => {}
                    // The job's next attempt appends what the journal has by then, and pays for nothing
                    // twice. A request would lose what it has paid for.
                    Err(ConversationRefusal::Store(error) | ConversationRefusal::Unreadable(error))
                        if !is_job =>
                    {
                        warn!(%error, "an answer is given although its conversation does not know it");
                        answer.is_turn_lost = true;
                    }
                    Err(refusal) => return Err(refusal.into()),
                }
            }
            Ok(_) | Err(_) => held.release().await,
        }
        answer
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for ConversationTurns<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        match ask.conversation.take() {
            Some(conversation) => self.go_on(ask, conversation).await,
            None => self.inner.invoke(ask).await,
        }
    }

    async fn invoke_for_json(&self, mut ask: Ask) -> Result<JsonAnswer, InvokeError> {
        match ask.conversation.take() {
            Some(conversation) => self.go_on(ask, conversation).await.map(JsonAnswer::Parsed),
            None => self.inner.invoke_for_json(ask).await,
        }
    }
}

/// Appends until the run's time is over, and a little longer.
async fn in_time(
    appending: impl Future<Output = Result<(), ConversationRefusal>>,
    until: Instant,
) -> Result<(), ConversationRefusal> {
    let appended = timeout_at(until.max(Instant::now()) + APPEND_GRACE, appending).await;
    appended.unwrap_or_else(|_elapsed| Err(ConversationError::Store("no answer".into()).into()))
}

/// Who claims the conversation: each attempt at a job by itself, so that one that was replaced can neither
/// give away nor write what its successor holds.
fn owner(ask: &Ask) -> String {
    match &ask.claim {
        Some(claim) => owner_of_attempt(&ask.run_id, claim.epoch),
        None => new_owner(),
    }
}
