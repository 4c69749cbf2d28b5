//! Runs that are part of a kept conversation: what was said before stands in front of them, and what they come to is
//! appended.

#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use uuid::Uuid;

use super::{Answer, Ask, Invoke, InvokeError, JsonAnswer};
use crate::conversations::{ConversationRefusal, Conversations, InConversation, in_front, is_kept, said};
use crate::ports::conversations::owner_of_attempt;
use crate::words::Turn;

/// Puts what was said before in front of a run that is part of a conversation, and appends its turn when it ends well.
///
/// It stands outside of the cache, whose key has the history in it, and outside of what is shared with others: a result from
/// the cache is a turn as well. A run that is part of none passes by.
#[derive(Debug)]
pub struct Conversed<I> {
    inner: I,
    conversations: Conversations,
}

impl<I: Invoke> Conversed<I> {
    /// Runs of `inner` in these conversations.
    pub fn new(inner: I, conversations: Conversations) -> Self {
        Self { inner, conversations }
    }

    async fn go_on(&self, mut ask: Ask, conversation: InConversation) -> Result<Answer, InvokeError> {
        // A caller who is over the limits neither claims nor begins a conversation.
        if let Some(check) = ask.rate_check.take()
            && !check.passes().await
        {
            return Err(InvokeError::OverLimit);
        }
        let user_id = ask.principal.user_id.clone().unwrap_or_default();
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
        let run_id = ask.run_id.clone();
        let answer = held.while_running(self.inner.invoke(ask)).await;
        match &answer {
            Ok(Answer { result, .. }) if is_kept(result.stop_reason) => {
                let messages = said(&own, &result.messages);
                held.append(Turn { id: turn_id, run_id, at: now(), messages }).await?;
            }
            Ok(_) | Err(_) => held.release().await,
        }
        answer
    }
}

#[async_trait]
impl<I: Invoke> Invoke for Conversed<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<Answer, InvokeError> {
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

/// Who claims the conversation: each attempt at a job by itself, so that one that was replaced can neither give away nor write
/// what its successor holds.
fn owner(ask: &Ask) -> String {
    match ask.job_id {
        Some(_) => owner_of_attempt(&ask.run_id, ask.epoch),
        None => Uuid::now_v7().simple().to_string(),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
