//! Webhooks of jobs: where the end of a job is sent, and what became of that.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Where the end of one job is sent. Its place is beside the job and never in its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub job_id: String,
    /// Whose job it is.
    pub user_id: String,
    /// Where it is sent.
    pub url: String,
    /// The trace in which it was submitted, as W3C Trace Context writes it: its deliveries belong to it.
    pub traceparent: Option<String>,
    /// Where it stands.
    pub state: WebhookState,
    /// Attempts since it was last due from the beginning: at first, and after a replay.
    pub tries: u32,
    /// When it was submitted, or its job retried last.
    pub created_at: SystemTime,
    /// The last attempts, the oldest first.
    pub attempts: Vec<WebhookAttempt>,
}

/// Where a webhook stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookState {
    /// The webhook's job has not ended.
    Waiting,
    /// The webhook's job has ended, and the receiver has not confirmed it.
    Pending,
    /// The receiver has confirmed it.
    Delivered,
    /// The delivery was given up.
    Failed,
}

impl WebhookState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Pending, Self::Delivered, Self::Failed];

    /// The state as it stands in JSON and in stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One attempt to deliver a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookAttempt {
    /// When it began, in milliseconds since 1970.
    pub at: u64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The status of the receiver's answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The wait that was told of; absent for the end of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Why there was none; safe to show to the job's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
