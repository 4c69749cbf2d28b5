//! The outbox of webhooks, and what sends them.

use std::time::{Duration, SystemTime};

use boxed_async::boxed_async;

use crate::words::{Webhook, WebhookState};

/// Most attempts in a webhook's log: the oldest are forgotten.
pub const MOST_LOGGED: usize = 50;

/// How long a webhook is kept, counted from its submission: as long as its job on Redis.
pub const KEPT: Duration = Duration::from_hours(7 * 24);

/// Keeps webhooks until they are delivered or given up, and for a while after that, for all replicas.
#[boxed_async]
pub trait WebhookOutbox: Send + Sync {
    /// Puts a webhook in under its job's id, before the job is added. The [current
    /// trace](crate::trace::current) goes with it.
    ///
    /// One that is there already stays as it is, unless nothing was sent of it and it waits or was given up:
    /// its job could not be added the first time. It waits anew then, counted from now, and whoever has
    /// claimed it loses the claim.
    async fn put(&self, webhook: &NewWebhook<'_>) -> WebhookResult;

    /// Claims webhooks that are due, within `bounds`, those first that have been due for longest, under a
    /// [lease](super::lease) that is not renewed: it is longer than any delivery. `owner` is new for every
    /// call: it proves the claim.
    async fn claim(&self, owner: &str, lease: Duration, bounds: ClaimBounds) -> WebhookResult<Vec<Webhook>>;

    /// Writes what became of a claimed webhook, and when it is due again: never if `next` is absent. False
    /// when `owner` has lost it: then nothing is changed.
    async fn settle(&self, owner: &str, webhook: &Webhook, next: Option<Duration>) -> WebhookResult<bool>;

    /// The webhook of a job, whoever's it is.
    async fn read(&self, job_id: &str) -> WebhookResult<Option<Webhook>>;

    /// Makes a webhook that was delivered or given up [`WebhookState::Pending`] and due now, with all its
    /// attempts before it. False when it was neither.
    async fn replay(&self, job_id: &str) -> WebhookResult<bool>;

    /// Makes the webhook of a job that is retried [`WebhookState::Waiting`] and due now, with all its
    /// attempts before it, whatever it was, as if it were submitted now, or at `not_before` if that is later.
    /// A claim of it is lost: that is about the end of the run before. False when the job has no webhook.
    async fn rearm(&self, job_id: &str, not_before: SystemTime) -> WebhookResult<bool>;
}

/// How many webhooks are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimBounds {
    /// Most webhooks of one claim, of all users together.
    pub most: u32,
    /// At most of one user, together with those of that user that are claimed already, by whomever. Claims at
    /// the same moment may exceed it by a few.
    pub of_a_user: u32,
}

/// A webhook that is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewWebhook<'a> {
    /// The job that will be added.
    pub job_id: &'a str,
    /// Whose job it is.
    pub user_id: &'a str,
    /// Where its end is sent.
    pub url: &'a str,
}

#[boxed_async]
pub trait WebhookSender: Send + Sync {
    /// Whether a webhook may be sent to that address at all, as far as its text says; else why not, for the
    /// submitter.
    fn check(&self, url: &str) -> Result<(), &'static str>;

    /// Sends one message of that user's, once, within bounds of time and bytes. The receiver is told the
    /// [current trace](crate::trace::current).
    async fn send(&self, user_id: &str, url: &str, message: &WebhookMessage) -> WebhookReply;

    /// The key by which receivers verify `v1a` signatures: `whpk_…`.
    fn public_key(&self) -> &str;
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookMessage {
    /// Every attempt sends this id, so that receivers tell a repetition: at least once is what is promised.
    pub id: String,
    /// JSON.
    pub body: String,
}

/// What the receiver says, or why it says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookReply {
    /// The status, or what went wrong in words for the job's owner.
    pub outcome: Result<u16, String>,
    /// When the receiver wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl WebhookReply {
    /// The state after this reply: confirmed by a 2xx, given up by a 410 (Standard Webhooks), else tried
    /// again.
    pub fn state(&self) -> WebhookState {
        match self.outcome {
            Ok(200..=299) => WebhookState::Delivered,
            Ok(410) => WebhookState::Failed,
            Ok(_) | Err(_) => WebhookState::Pending,
        }
    }
}

/// The result of an operation on an outbox of webhooks.
pub type WebhookResult<T = ()> = Result<T, WebhookError>;

/// Why the outbox could not do it. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the outbox of webhooks failed: {0}")]
pub struct WebhookError(pub String);
