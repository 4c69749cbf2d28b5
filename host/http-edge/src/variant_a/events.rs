//! Variant A's streams: `GET /agent/runs/{runId}/events` and `POST /agent/runs/{runId}/cancel`. There are no
//! users, so whoever knows a run's id, which is random, may do both. Runs of users and of jobs are not found
//! here.

use std::sync::Arc;

use agent_core::error_chain::ErrorChain;
use agent_core::ports::JournalError;
use agent_core::words::CancelOutcome;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use run_service::layers::{Ask, InvokeError};
use run_service::loop_driver::RunError;
use run_service::streams::{FoundRun, RunEnd, RunStreams};
use serde_json::json;

use super::error::Error;
use super::invoke_response::Success;
use crate::answer;
use crate::dependencies::{RouteState, VariantA};
use crate::openapi::{Operation, tags};
use crate::request::path_id::{self, PathId, check_id};
use crate::server_sent_events::{self, CancelledRun, EventStream, OwnEvents, ShowEnd, ShownEnd};

pub(super) fn describe_stream() -> Operation {
    Operation::new("followInvocation", tags::AGENT, "Follow a run, from any event on")
        .path(path_id::RUN_ID)
        .resumes_stream()
        .refuses(Error::of_runs([Error::UnknownRun]))
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new("cancelInvocation", tags::AGENT, "Cancel a run that is streamed")
        .path(path_id::RUN_ID)
        .answers::<CancelledRun<'static>>(StatusCode::ACCEPTED, "It is cancelled, or will be within seconds")
        .refuses(Error::of_runs([Error::UnknownRun, Error::RunHadEnded, Error::RunOutOfReach]))
        .once(Error::of_keys())
}

/// Begins a run that goes on without its reader.
pub(super) async fn stream(streams: &RunStreams, headers: &HeaderMap, ask: Ask) -> Result<Response, Error> {
    let reader = server_sent_events::resuming_reader(headers);
    let run = server_sent_events::begin(streams, ask, reader).await?;
    let location = location(run.following.run_id());
    let writer = OwnEvents::after(None, show_end());
    Ok(EventStream { run, writer, location, permit: None }.into_response())
}

pub(super) async fn follow_run(
    State(edge): State<Arc<RouteState<VariantA>>>,
    headers: HeaderMap,
    run_id: PathId,
) -> Result<Response, Error> {
    let (streams, run) = find(&edge, run_id).await?;
    let after = server_sent_events::last_event(&headers, streams, &run).await.map_err(unreadable)?;
    let from = after.map_or(0, |after| after.number);
    if after.is_some() && streams.has_ended_before(&run, from).await.map_err(unreadable)? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let location = location(&run.run_id);
    let (run, writer) = (streams.follow(&run, from).into(), OwnEvents::after(after, show_end()));
    Ok(EventStream { run, writer, location, permit: None }.into_response_with(&edge.settings))
}

pub(super) async fn cancel_run(
    State(edge): State<Arc<RouteState<VariantA>>>,
    run_id: PathId,
) -> Result<Response, Error> {
    let (streams, run) = find(&edge, run_id).await?;
    match streams.cancel(&run.run_id).await.map_err(unreadable)? {
        CancelOutcome::Done | CancelOutcome::Asked => {
            Ok(answer::json(StatusCode::ACCEPTED, &CancelledRun { run_id: &run.run_id }))
        }
        CancelOutcome::HadEnded => Err(Error::RunHadEnded),
        CancelOutcome::Refused => Err(Error::RunOutOfReach),
        CancelOutcome::Unknown => Err(Error::UnknownRun),
    }
}

async fn find(edge: &RouteState<VariantA>, run_id: PathId) -> Result<(&RunStreams, FoundRun), Error> {
    let streams = edge.variant.streams.as_ref().ok_or(Error::UnknownRun)?;
    let run_id = check_id(run_id).ok_or(Error::UnknownRun)?;
    let run = streams.find(&run_id).await.map_err(unreadable)?;
    let run = run.filter(|run| run.user_id.is_none() && run.job_id.is_none()).ok_or(Error::UnknownRun)?;
    Ok((streams, run))
}

fn unreadable(error: JournalError) -> InvokeError {
    RunError::Journal(error).into()
}

fn location(run_id: &str) -> String {
    format!("/agent/runs/{run_id}/events")
}

fn show_end() -> ShowEnd {
    Arc::new(|end| {
        let (error, log) = match end {
            RunEnd::Answer(answer) => {
                let success = Success::from(&*answer.result);
                return ShownEnd::Ended(serde_json::to_string(&success).unwrap_or_default());
            }
            RunEnd::Failed(error) => (Error::from(error.clone()), ErrorChain(error).to_string()),
            RunEnd::Recorded(failure) => (Error::Recorded, failure.error.clone()),
            RunEnd::NeverBegan => (Error::Recorded, "it was cancelled before it began".to_owned()),
        };
        let (status, text) = error.status_and_text();
        ShownEnd::Failed { status, body: json!({ "error": text }), log }
    })
}
