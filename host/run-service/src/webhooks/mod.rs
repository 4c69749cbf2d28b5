//! Webhooks of jobs: the end of a job is sent to an address that its submitter named (Standard Webhooks).
//!
//! The address is put into the outbox under the job's id before the job is added. [`Dispatcher`] reads the
//! ends from the queue, whoever worked the job, and sends them until the receiver confirms one: at least
//! once, by one process at a time. [`Webhooks`] is what callers do.

mod dispatcher;
mod schedule;
mod spans;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use agent_core::ports::webhooks::NewWebhook;
use agent_core::ports::{WebhookOutbox, WebhookResult, WebhookSender};
use agent_core::words::Webhook;

pub use dispatcher::{Dispatcher, DispatcherContext, RenderJob};

/// What callers do with webhooks. Whose job it is has been checked before.
#[derive(Clone)]
pub struct Webhooks {
    outbox: Arc<dyn WebhookOutbox>,
    sender: Arc<dyn WebhookSender>,
}

impl Webhooks {
    /// The webhooks of that outbox.
    pub fn new(outbox: Arc<dyn WebhookOutbox>, sender: Arc<dyn WebhookSender>) -> Self {
        Self { outbox, sender }
    }

    /// Whether a webhook may be sent there at all; else why not.
    pub fn check(&self, url: &str) -> Result<(), &'static str> {
        self.sender.check(url)
    }

    /// Remembers where the end of a job is sent. The job is added after this.
    pub async fn put(&self, webhook: &NewWebhook<'_>) -> WebhookResult {
        self.outbox.put(webhook).await
    }

    /// The webhook of a job of this user.
    pub async fn read(&self, user_id: &str, job_id: &str) -> WebhookResult<Option<Webhook>> {
        Ok(self.outbox.read(job_id).await?.filter(|webhook| webhook.user_id == user_id))
    }

    /// Sends the webhook of a job of this user again. None when there is none, false when it is still on its
    /// way.
    pub async fn replay(&self, user_id: &str, job_id: &str) -> WebhookResult<Option<bool>> {
        match self.read(user_id, job_id).await? {
            Some(_) => Ok(Some(self.outbox.replay(job_id).await?)),
            None => Ok(None),
        }
    }

    /// The outbox, in which [`retry`](fn@crate::jobs::retry) arms webhooks again.
    pub fn outbox(&self) -> &dyn WebhookOutbox {
        &*self.outbox
    }

    /// The key by which receivers verify `v1a` signatures.
    pub fn public_key(&self) -> &str {
        self.sender.public_key()
    }
}
