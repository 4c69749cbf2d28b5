//! `/api/agent/jobs/{jobId}/webhook`: what became of the webhook of one's job, and sending it again; and the
//! message that a webhook is.

use agent_core::words::{Job, JobStatus, Webhook, WebhookAttempt};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use run_service::waits::JobWait;
use run_service::webhooks::Webhooks;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::documented;
use super::error::Error;
use super::jobs::{self, JobBody};
use super::state::Shared;
use super::timestamp::{iso_8601, iso_8601_of_millis};
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::request::path_id::{PathId, check_id};

/// Most bytes of a message. Of a larger one the result is left out, or what the job waits for: either can be
/// read under its id.
const MOST_BYTES: usize = 1 << 20;

pub(super) fn describe_read() -> Operation {
    Operation::new("readWebhook", tags::JOBS, "Read what became of a job's webhook")
        .about("Every attempt to deliver it, with the receiver's status and the time it took.")
        .path(jobs::ID)
        .answers::<WebhookBody<'static>>(StatusCode::OK, "The webhook")
        .refuses([Error::UnknownJob])
        .refuses(documented::stores())
}

pub(super) fn describe_replay() -> Operation {
    Operation::new("replayWebhook", tags::JOBS, "Deliver a job's webhook again")
        .about("One that was delivered or given up is due now, with all its attempts before it.")
        .path(jobs::ID)
        .answers::<WebhookBody<'static>>(StatusCode::ACCEPTED, "It is due")
        .refuses([Error::UnknownJob, Error::WebhookOnItsWay])
        .refuses(documented::stores())
}

/// `GET /api/agent/jobs/{jobId}/webhook`
pub(super) async fn read_webhook(
    State(edge): State<Shared>,
    caller: Caller,
    job_id: PathId,
) -> Result<Response, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    let webhooks = edge.variant.webhooks.as_ref().ok_or(Error::UnknownJob)?;
    let webhook = webhooks.read(caller.id(), &job_id).await?.ok_or(Error::UnknownJob)?;
    Ok(answer::json(StatusCode::OK, &WebhookBody::of(&webhook, webhooks)))
}

/// `POST /api/agent/jobs/{jobId}/webhook/replay`
pub(super) async fn replay_webhook(
    State(edge): State<Shared>,
    caller: Caller,
    job_id: PathId,
) -> Result<Response, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    let webhooks = edge.variant.webhooks.as_ref().ok_or(Error::UnknownJob)?;
    match webhooks.replay(caller.id(), &job_id).await? {
        None => Err(Error::UnknownJob),
        Some(false) => Err(Error::WebhookOnItsWay),
        Some(true) => {
            let webhook = webhooks.read(caller.id(), &job_id).await?.ok_or(Error::UnknownJob)?;
            Ok(answer::json(StatusCode::ACCEPTED, &WebhookBody::of(&webhook, webhooks)))
        }
    }
}

/// Where the end of a job is sent, and what became of that.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
struct WebhookBody<'a> {
    /// The job.
    #[schema(example = "1")]
    job_id: &'a str,
    /// Where its end is sent.
    #[schema(example = "https://example.com/hook")]
    url: &'a str,
    /// `waiting` until the job has ended, `pending` until the receiver confirms it, then `delivered`;
    /// `failed` when it was given up.
    #[schema(example = "delivered")]
    state: &'static str,
    /// When it was submitted.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    created_at: String,
    /// The last attempts, the oldest first.
    attempts: Vec<AttemptBody<'a>>,
    /// Verifies the signatures `v1a` (Ed25519).
    #[schema(example = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")]
    public_key: &'a str,
}

/// One attempt to deliver a webhook.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookAttempt)]
struct AttemptBody<'a> {
    /// When it began.
    #[schema(format = DateTime, example = "2026-11-21T12:00:01.500Z")]
    at: String,
    /// How long it took, in milliseconds.
    #[schema(example = 42)]
    duration_ms: u64,
    /// The status of the receiver's answer, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 200)]
    status: Option<u16>,
    /// Why there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "no answer within 20 s")]
    error: Option<&'a str>,
}

impl<'a> WebhookBody<'a> {
    fn of(webhook: &'a Webhook, webhooks: &'a Webhooks) -> Self {
        Self {
            job_id: &webhook.job_id,
            url: &webhook.url,
            state: webhook.state.as_str(),
            created_at: iso_8601(webhook.created_at),
            attempts: webhook.attempts.iter().map(AttemptBody::from).collect(),
            public_key: webhooks.public_key(),
        }
    }
}

impl<'a> From<&'a WebhookAttempt> for AttemptBody<'a> {
    fn from(attempt: &'a WebhookAttempt) -> Self {
        Self {
            at: iso_8601_of_millis(attempt.at),
            duration_ms: attempt.duration_ms,
            status: attempt.status,
            error: attempt.error.as_deref(),
        }
    }
}

/// The message about the end of a job, or about what it and its child runs wait for: `{type, timestamp,
/// data}`, where `data` is the job as its owner reads it.
pub fn webhook_message(job: &Job, waits: &[JobWait]) -> String {
    #[derive(Serialize)]
    struct Message<'a> {
        r#type: &'static str,
        timestamp: String,
        data: JobBody<'a>,
    }
    let write = |data: JobBody<'_>| {
        let message = Message {
            r#type: match job.status {
                JobStatus::Completed => "job.completed",
                JobStatus::Cancelled => "job.cancelled",
                JobStatus::Failed | JobStatus::Waiting | JobStatus::Active | JobStatus::Delayed => {
                    "job.failed"
                }
                JobStatus::Parked => "run.waiting",
            },
            timestamp: match waits.iter().map(|wait| wait.open.wait.began_at).max() {
                Some(began_at) => iso_8601_of_millis(began_at),
                None => iso_8601(job.finished_at.unwrap_or(job.created_at)),
            },
            data,
        };
        // Texts and numbers always can be written.
        serde_json::to_string(&message).unwrap_or_default()
    };
    let whole = write(JobBody::from(job).waiting_for(waits));
    if whole.len() <= MOST_BYTES { whole } else { write(JobBody::from(job).without_result()) }
}
