//! `POST /api/agent/async`: `{query, options?, webhookUrl?}` in, the id of a job out. With an idempotency key
//! the id is that of the key.

use std::time::Duration;

use agent_core::ports::webhooks::NewWebhook;
use agent_core::words::{JobData, Options};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use run_service::layers::InvokeError;
use uuid::Uuid;

use super::auth::Caller;
use super::bodies::{JobRequest, WEBHOOK_URL};
use super::error::Error;
use super::job_accepted::Accepted;
use super::state::Shared;
use super::{bodies, conversations, documented};
use crate::answer;
use crate::body::Payload;
use crate::middleware::idempotency::OnceId;
use crate::openapi::{Operation, tags};
use crate::request::{Issue, Step};

/// What is said of options that workers of another program would not know.
const SHARED_QUEUE: &str = "Node workers may share the queue in Redis, and they read the query alone: leave the options \
    out, or have NODE_WORKERS set to off once none of them works on it";

pub(super) fn describe() -> Operation {
    Operation::new("submitJob", tags::JOBS, "Queue a job")
        .about("It is stored when the answer comes, and worked even if this process ends.")
        .request_id()
        .body::<JobRequest>()
        .answers::<Accepted<'static>>(StatusCode::ACCEPTED, "It is queued")
        .header(StatusCode::ACCEPTED, &LOCATION)
        .refuses(documented::bodies())
        .refuses(documented::conversations())
        .refuses(documented::stores())
}

pub(super) async fn submit_job(
    State(edge): State<Shared>,
    caller: Caller,
    once: Option<Extension<OnceId>>,
    payload: Payload,
) -> Result<Response, Error> {
    let JobRequest { query, webhook_url, mut options } = bodies::read(payload, &edge.settings).await?;
    let conversation_id = options.conversation_id.take();
    let mut job = JobData::with_options(caller.principal(), query, options.of_run());
    check_options(&edge, &caller, &job.options.options).await?;
    // Carried out again under its key, also by another process, the request adds the same job.
    job.id = once.map(|Extension(OnceId(id))| id.to_string());
    if let Some(id) = &conversation_id {
        refuse_busy(&edge, &caller, id, job.id.as_deref()).await?;
    }
    job.conversation_id = conversation_id;
    if let Some(url) = webhook_url {
        put_webhook(&edge, &mut job, &url).await?;
    }
    let job_id = edge.variant.jobs.submit(&job).await?;
    let mut response = answer::json(StatusCode::ACCEPTED, &Accepted { job_id: &job_id });
    // Queues give plain ids; one that no header could carry is in the body all the same.
    if let Ok(location) = HeaderValue::try_from(format!("/api/agent/jobs/{job_id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Refuses options where the queue cannot have them, and tools that the caller's runs have not by now.
async fn check_options(edge: &Shared, caller: &Caller, options: &Options) -> Result<(), Error> {
    if *options == Options::default() {
        return Ok(());
    }
    if !edge.variant.jobs.take_options() {
        return Err(Error::Schema(Issue::custom(SHARED_QUEUE, vec![Step::Name("options")]).into()));
    }
    bodies::check_output_schema(options).await?;
    if options.tools.is_some() {
        edge.variant.tool_calls.prepared().await?;
        let tools = edge.variant.toolbox.current_for(&caller.principal());
        let checked = edge.variant.jobs.check_tools(tools.catalog(), options.tools.as_deref());
        checked.map_err(InvokeError::from)?;
    }
    Ok(())
}

/// A conversation that is free now may be held by another run when the job's begins: then the job waits for
/// it. A job that is there already, because its request is carried out again under its key, may be the one
/// whose run holds it.
pub async fn refuse_busy(
    edge: &Shared,
    caller: &Caller,
    id: &str,
    keyed_job: Option<&str>,
) -> Result<(), Error> {
    let kept = edge.variant.conversations.read(caller.id(), id).await.map_err(conversations::unavailable)?;
    if !kept.is_some_and(|kept| kept.is_busy) {
        return Ok(());
    }
    if let Some(job_id) = keyed_job
        && edge.variant.jobs.read(caller.id(), job_id, Duration::ZERO).await?.is_some()
    {
        return Ok(());
    }
    Err(conversations::busy())
}

/// Puts the address into the outbox under the id that the job will have: once the job is added, its end is
/// sent.
async fn put_webhook(edge: &Shared, job: &mut JobData, url: &str) -> Result<(), Error> {
    let refused = |message| Error::Schema(Issue::custom(message, vec![Step::Name(WEBHOOK_URL)]).into());
    let webhooks = edge.variant.webhooks.as_ref();
    let webhooks =
        webhooks.ok_or_else(|| refused("This service sends no webhooks: WEBHOOK_SECRET is not set"))?;
    webhooks.check(url).map_err(refused)?;
    let id = job.id.get_or_insert_with(|| Uuid::now_v7().simple().to_string());
    Ok(webhooks.put(&NewWebhook { job_id: id, user_id: &job.user_id, url }).await?)
}
