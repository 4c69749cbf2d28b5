//! Responses in the background (`background: true`): a job does the work, and the response is read, streamed
//! and cancelled by its id, which names the job.
//!
//! The response is kept as soon as it is queued, with what was said until then, and its job is added behind
//! that: a kill between the two leaves a response whose id nobody was told. What has become of it is for
//! `current_response` to find out. So no worker knows of responses.

use std::time::Duration;

use agent_core::words::{JobData, Turn};
use axum::response::Response;
use http::StatusCode;
use run_service::conversations::{appended, in_front};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::head::Head;
use super::super::input::parameters::{self, Fields};
use super::super::run::conversation_state::Place;
use super::super::run::kept::MOST_BYTES;
use super::super::run::stream;
use super::current_response::{PREFIX, pending_turn};
use super::request::ResponsesRequest;
use super::response::{Frame, ResponseEvents};
use http_edge::answer;
use http_edge::request::Field;
use http_edge::server_sent_events::EventStream;
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::conversations::unavailable;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::events::permit;
use http_edge::variant_b::state::Shared;
use http_edge::variant_b::submit::refuse_busy;
use run_service::streams::StreamPermit;

/// Whether nobody waits for the response.
pub(crate) const BACKGROUND: Field = parameters::switch("background")
    .about(
        "Whether the response is queued, and answered at once: its id reads, streams and cancels it. It has to be kept. \
         Refused where Node workers may share the queue (`NODE_WORKERS`).",
    )
    .example(|| json!(false));

const SHARED_QUEUE: &str = "Node workers may share the queue in Redis, and they know nothing of responses: leave it \
    out, or have NODE_WORKERS set to off once none of them works on it.";

/// Whether the request wants to be carried out in the background.
pub(crate) fn read(fields: &Fields, place: &Place) -> Result<bool, Problem> {
    let background = parameters::read(fields, &BACKGROUND)?.unwrap_or_default();
    if background && !place.store {
        let why = "a response in the background has to be kept: leave it out, or send true.";
        return Err(Problem::invalid("store", why));
    }
    Ok(background)
}

/// Queues a response, and answers how it stands or streams it.
pub(crate) async fn begin(
    edge: &Shared,
    asking: &Asking,
    place: &Place,
    turns: Vec<Turn>,
    request: ResponsesRequest,
) -> Result<Response, Error> {
    let (variant, caller) = (&edge.variant, &asking.caller);
    if !variant.jobs.take_options() {
        return Err(Problem::unsupported_value(BACKGROUND.name, SHARED_QUEUE).into());
    }
    let ResponsesRequest { input, mut options, stream, echo } = request;
    asking.check_limits().await?;
    // Whatever else could be refused comes before the job, which would go on behind a refusal.
    let permit = stream.then(|| stream_permit(edge, caller.id())).transpose()?;
    // Carried out again under its key, the request adds the same job.
    let keyed = asking.turn_id();
    if let Some(id) = &place.conversation {
        refuse_busy(edge, caller, id, keyed.as_deref()).await?;
    }
    let job_id = keyed.unwrap_or_else(|| Uuid::now_v7().simple().to_string());
    let frame = Frame::new(&Head::new(&job_id), &options, echo);
    let (id, queued) = (frame.response_id(), frame.queued());
    let shown = queued.to_string();
    if shown.len() > MOST_BYTES {
        let why = "what such a response repeats of its request is too large to be kept: send less of `tools`, \
                   `instructions` and `metadata`.";
        return Err(Problem::invalid(BACKGROUND.name, why).into());
    }
    let pending = pending_turn(&id, &options.history, &input);
    if place.previous.is_some() {
        options.history = in_front(&turns, &options.history);
    }
    let mut job = JobData::with_options(caller.principal(), input, options).with_id(&job_id);
    job.conversation_id.clone_from(&place.conversation);
    let kept = appended(turns, pending);
    variant.conversations.keep_response(caller.id(), &id, &kept, &shown).await.map_err(unavailable)?;
    // When this fails the job may be there all the same, and its response is.
    variant.jobs.submit(&job).await?;
    if let Some(permit) = permit {
        let of = JobOfResponse { user_id: caller.id(), job_id: &job_id };
        return follow_with(edge, permit, &of, queued, None).await;
    }
    Ok(answer::json(StatusCode::OK, &queued))
}

/// Streams a response that was queued, behind the event number `after`. Its events are made of the run's
/// journal alone, so that every stream of it has the same events under the same numbers.
pub(crate) async fn follow(
    edge: &Shared,
    user_id: &str,
    job_id: &str,
    shown: Value,
    after: Option<u64>,
) -> Result<Response, Error> {
    let permit = stream_permit(edge, user_id)?;
    follow_with(edge, permit, &JobOfResponse { user_id, job_id }, shown, after).await
}

/// The job that does the work of a response.
struct JobOfResponse<'a> {
    user_id: &'a str,
    job_id: &'a str,
}

fn no_streams() -> Problem {
    Problem::unsupported_value("stream", "Runs cannot be followed here: read the response.")
}

/// Refuses a stream where there are none, or when the user has too many.
fn stream_permit(edge: &Shared, user_id: &str) -> Result<StreamPermit, Error> {
    if edge.variant.streams.is_none() {
        return Err(no_streams().into());
    }
    permit(edge, user_id)
}

async fn follow_with(
    edge: &Shared,
    permit: StreamPermit,
    of: &JobOfResponse<'_>,
    shown: Value,
    after: Option<u64>,
) -> Result<Response, Error> {
    let JobOfResponse { user_id, job_id } = *of;
    let streams = edge.variant.streams.as_ref().ok_or_else(no_streams)?;
    let job = edge.variant.jobs.read(user_id, job_id, Duration::ZERO).await?;
    let job = job.ok_or_else(|| Problem::unknown_response(&format!("{PREFIX}{job_id}")))?;
    let run = streams.follow_job(&job, 0).ok_or_else(no_streams)?.into();
    let events = ResponseEvents::in_background(Frame::of_kept(shown), after);
    let writer = stream::writer(edge, events);
    let location = format!("/api/agent/jobs/{job_id}/events");
    Ok(EventStream { run, writer, location, permit: Some(permit) }.into_response_with(&edge.settings))
}
