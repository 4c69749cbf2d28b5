//! Variant B's streams: `GET /api/agent/runs/{runId}/events`, `GET /api/agent/jobs/{jobId}/events`, and
//! `POST /api/agent/runs/{runId}/cancel`. What belongs to somebody else does not exist.

use std::sync::Arc;
use std::time::Duration;

use agent_core::error_chain::ErrorChain;
use agent_core::words::{CancelOutcome, FailureKind};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use run_service::layers::Ask;
use run_service::streams::{FoundRun, RunEnd, RunFailure, RunStreams, StreamPermit};
use serde_json::{Value, json};

use super::agent_response::Success;
use super::auth::Caller;
use super::error::Error;
use super::state::Shared;
use super::{documented, jobs};
use crate::answer;
use crate::dependencies::{RouteState, VariantB};
use crate::openapi::{Operation, tags};
use crate::request::path_id::{self, PathId, check_id};
use crate::server_sent_events::{self, CancelledRun, EventStream, OwnEvents, Position, ShowEnd, ShownEnd};

pub(super) fn describe_run() -> Operation {
    Operation::new("followRun", tags::AGENT, "Follow a run, from any event on")
        .path(path_id::RUN_ID)
        .resumes_stream()
        .refuses([Error::UnknownRun, Error::TooManyStreams])
        .refuses(documented::stores())
}

pub(super) fn describe_job() -> Operation {
    Operation::new("followJob", tags::JOBS, "Follow the run of a job, from any event on")
        .about("The stream begins before the run does.")
        .path(jobs::ID)
        .resumes_stream()
        .refuses([Error::UnknownJob, Error::TooManyStreams])
        .refuses(documented::stores())
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new("cancelRun", tags::AGENT, "Cancel a run that is streamed, or a job's")
        .path(path_id::RUN_ID)
        .answers::<CancelledRun<'static>>(StatusCode::ACCEPTED, "It is cancelled, or will be within seconds")
        .refuses([Error::UnknownRun, Error::RunHadEnded, Error::RunOutOfReach, Error::JobOutOfReach])
        .refuses(documented::stores())
}

/// Begins a run that goes on without its reader.
pub(super) async fn stream(
    edge: &Shared,
    streams: &RunStreams,
    headers: &HeaderMap,
    ask: Ask,
) -> Result<Response, Error> {
    let permit = permit(edge, ask.principal.user_id.as_deref().unwrap_or_default())?;
    let reader = server_sent_events::resuming_reader(headers);
    let run = server_sent_events::begin(streams, ask, reader).await?;
    let location = location(run.following.run_id());
    let writer = OwnEvents::after(None, show_end(edge));
    Ok(EventStream { run, writer, location, permit: Some(permit) }.into_response())
}

/// `GET /api/agent/runs/{runId}/events`.
pub(super) async fn follow_run(
    State(edge): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    run_id: PathId,
) -> Result<Response, Error> {
    let (streams, run) = find(&edge, &caller, run_id).await?;
    let location = location(&run.run_id);
    follow(&edge, &caller, Follow { streams, run: &run, headers: &headers, location }).await
}

/// A run to be followed, and where the stream can be resumed.
pub(super) struct Follow<'a> {
    pub(super) streams: &'a RunStreams,
    pub(super) run: &'a FoundRun,
    pub(super) headers: &'a HeaderMap,
    pub(super) location: String,
}

/// Follows a run that the caller may see.
pub(super) async fn follow(
    edge: &RouteState<VariantB>,
    caller: &Caller,
    Follow { streams, run, headers, location }: Follow<'_>,
) -> Result<Response, Error> {
    let permit = permit(edge, caller.id())?;
    let after = server_sent_events::last_event(headers, streams, run).await?;
    if is_over(streams, run, after).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let run = streams.follow(run, after.map_or(0, |after| after.number)).into();
    let writer = OwnEvents::after(after, show_end(edge));
    Ok(EventStream { run, writer, location, permit: Some(permit) }.into_response_with(&edge.settings))
}

/// `GET /api/agent/jobs/{jobId}/events`. The stream begins before the job's run does.
pub(super) async fn follow_job(
    State(edge): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    job_id: PathId,
) -> Result<Response, Error> {
    let streams = edge.variant.streams.as_ref().ok_or(Error::UnknownJob)?;
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    let job = edge.variant.jobs.read(caller.id(), &job_id, Duration::ZERO).await?.ok_or(Error::UnknownJob)?;
    let permit = permit(&edge, caller.id())?;
    let run = FoundRun {
        run_id: job.run_id.clone(),
        user_id: Some(job.user_id.clone()),
        job_id: Some(job.id.clone()),
    };
    let after = server_sent_events::last_event(&headers, streams, &run).await?;
    if let Some(after) = after
        && streams.job_has_ended_before(&job, &run, after.number).await?
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let from = after.map_or(0, |after| after.number);
    let run = streams.follow_job(&job, from).ok_or(Error::UnknownJob)?.into();
    let location = format!("/api/agent/jobs/{job_id}/events");
    let writer = OwnEvents::after(after, show_end(&edge));
    Ok(EventStream { run, writer, location, permit: Some(permit) }.into_response_with(&edge.settings))
}

/// `POST /api/agent/runs/{runId}/cancel`: the run is cancelled, or will be within seconds.
pub(super) async fn cancel_run(
    State(edge): State<Shared>,
    caller: Caller,
    run_id: PathId,
) -> Result<Response, Error> {
    let (streams, run) = find(&edge, &caller, run_id).await?;
    cancel(&edge, streams, &run).await
}

/// Cancels a run that the caller may see.
pub(super) async fn cancel(
    edge: &RouteState<VariantB>,
    streams: &RunStreams,
    run: &FoundRun,
) -> Result<Response, Error> {
    let owner = run.user_id.as_deref().unwrap_or_default();
    let outcome = match &run.job_id {
        Some(job_id) => match edge.variant.jobs.cancel_run(owner, job_id, Some(&run.run_id)).await? {
            // The process that handed the run over may have died before it added the job.
            CancelOutcome::Unknown => streams.cancel(&run.run_id).await?,
            outcome => outcome,
        },
        None => streams.cancel(&run.run_id).await?,
    };
    match outcome {
        CancelOutcome::Done | CancelOutcome::Asked => {
            Ok(answer::json(StatusCode::ACCEPTED, &CancelledRun { run_id: &run.run_id }))
        }
        CancelOutcome::HadEnded => Err(Error::RunHadEnded),
        CancelOutcome::Refused if run.job_id.is_none() => Err(Error::RunOutOfReach),
        CancelOutcome::Refused => Err(Error::JobOutOfReach),
        CancelOutcome::Unknown => Err(Error::UnknownRun),
    }
}

async fn find<'a>(
    edge: &'a RouteState<VariantB>,
    caller: &Caller,
    run_id: PathId,
) -> Result<(&'a RunStreams, FoundRun), Error> {
    let (streams, run) = find_anybodys(edge, run_id).await?;
    if run.user_id.as_deref() != Some(caller.id()) {
        return Err(Error::UnknownRun);
    }
    Ok((streams, run))
}

/// The run of that id, whoever's it is.
pub(super) async fn find_anybodys(
    edge: &RouteState<VariantB>,
    run_id: PathId,
) -> Result<(&RunStreams, FoundRun), Error> {
    let streams = edge.variant.streams.as_ref().ok_or(Error::UnknownRun)?;
    let run_id = check_id(run_id).ok_or(Error::UnknownRun)?;
    let run = streams.find(&run_id).await?.ok_or(Error::UnknownRun)?;
    Ok((streams, run))
}

/// A client that connects again after the last event is told that nothing follows (204), which ends its
/// attempts.
async fn is_over(streams: &RunStreams, run: &FoundRun, after: Option<Position>) -> Result<bool, Error> {
    match after {
        Some(after) => Ok(streams.has_ended_before(run, after.number).await?),
        None => Ok(false),
    }
}

pub fn permit(edge: &RouteState<VariantB>, user_id: &str) -> Result<StreamPermit, Error> {
    edge.streams.acquire(user_id).ok_or(Error::TooManyStreams)
}

pub fn location(run_id: &str) -> String {
    format!("/api/agent/runs/{run_id}/events")
}

fn show_end(edge: &RouteState<VariantB>) -> ShowEnd {
    let production = edge.variant.production;
    Arc::new(move |end| match end {
        RunEnd::Answer(answer) => {
            ShownEnd::Ended(serde_json::to_string(&Success::from(answer)).unwrap_or_default())
        }
        RunEnd::Failed(error) => {
            let log = ErrorChain(error).to_string();
            let (status, body) = Error::from(error.clone()).status_and_body(production);
            ShownEnd::Failed { status, body, log }
        }
        RunEnd::Recorded(failure) => show_recorded(failure, production),
        RunEnd::NeverBegan => ShownEnd::Failed {
            status: StatusCode::CONFLICT,
            body: json!({ "error": "The job was cancelled" }),
            log: "it was cancelled before it began".to_owned(),
        },
    })
}

/// Shows the status and text that the error itself would have been answered with.
fn show_recorded(failure: &RunFailure, production: bool) -> ShownEnd {
    let RunFailure { kind, error, is_public, is_final: _ } = failure;
    let (status, text): (_, &str) = match kind {
        FailureKind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, super::error::RATE_LIMITED),
        FailureKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, super::error::UNAVAILABLE),
        FailureKind::Internal if *is_public || !production => {
            (StatusCode::INTERNAL_SERVER_ERROR, error.as_str())
        }
        FailureKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR),
    };
    let body: Value = json!({ "error": text });
    ShownEnd::Failed { status, body, log: error.clone() }
}
