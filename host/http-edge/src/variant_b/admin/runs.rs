//! Everybody's runs: which there were, what one of them did and cost, its events as they come, and cancelling
//! it.
//!
//! The records and journals are those that `agent-host runs` reads. What they hold is the operator's to see:
//! questions, answers, arguments of tools, receipts with their detail.

use agent_core::words::RunQuery;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::super::auth::Caller;
use super::super::documented::stores;
use super::super::error::Error;
use super::super::events::{self, Follow};
use super::super::parameters::place_behind;
use super::super::state::Shared;
use super::listing::{EventRange, RunListing};
use super::run_body::{MOST_EVENTS, RunPage, Timeline};
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::request::path_id::{self, PathId, check_id};
use crate::request::read_query;
use crate::server_sent_events::CancelledRun;

pub(super) fn describe_list() -> Operation {
    Operation::new("listRuns", tags::OPERATIONS, "List everybody's runs, the last one first")
        .query::<RunListing>()
        .about("A run that is streamed is listed when it begins, any other one when it has ended.")
        .answers::<RunPage<'static>>(StatusCode::OK, "A page of them")
        .refuses(stores())
}

pub(super) fn describe_timeline() -> Operation {
    Operation::new("readRun", tags::OPERATIONS, "Read what a run did and what it cost")
        .path(path_id::RUN_ID)
        .query::<EventRange>()
        .answers::<Timeline<'static>>(StatusCode::OK, "Its events, with receipts in full")
        .refuses([Error::UnknownRun])
        .refuses(stores())
}

pub(super) fn describe_events() -> Operation {
    Operation::new("watchRun", tags::OPERATIONS, "Follow anybody's run, from any event on")
        .path(path_id::RUN_ID)
        .resumes_stream()
        .refuses([Error::UnknownRun, Error::TooManyStreams])
        .refuses(stores())
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new("stopRun", tags::OPERATIONS, "Cancel anybody's run")
        .about("A run that is streamed, or that of a job.")
        .path(path_id::RUN_ID)
        .answers::<CancelledRun<'static>>(StatusCode::ACCEPTED, "It is cancelled, or will be within seconds")
        .refuses([Error::UnknownRun, Error::RunHadEnded, Error::RunOutOfReach, Error::JobOutOfReach])
        .refuses(stores())
}

/// `GET /admin/runs?user=&limit=&cursor=`.
pub(super) async fn list(State(edge): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let wanted: RunListing = read_query(query.as_deref())?;
    let runs = &edge.variant.runs;
    // One more, which says whether there is another page.
    let limit = u32::try_from(wanted.limit + 1).unwrap_or(u32::MAX);
    let after = wanted.cursor.as_deref().and_then(place_behind);
    let query = RunQuery { user_id: wanted.user.as_deref(), limit, after };
    let records = runs.list(&query).await?;
    Ok(answer::visible_json(StatusCode::OK, &RunPage::new(&records, wanted.limit)))
}

/// `GET /admin/runs/{runId}?from=`.
pub(super) async fn timeline(
    State(edge): State<Shared>,
    run_id: PathId,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let run_id = check_id(run_id).ok_or(Error::UnknownRun)?;
    let EventRange { from } = read_query(query.as_deref())?;
    let runs = &edge.variant.runs;
    // The record first, which is written last: with one of a run that has ended, the journal is whole.
    let record = runs.find(&run_id).await?;
    // One more, which says whether there are others.
    let events = runs.read_page(&run_id, from, MOST_EVENTS + 1).await?;
    if record.is_none() && events.is_empty() {
        return Err(Error::UnknownRun);
    }
    Ok(answer::visible_json(StatusCode::OK, &Timeline::new(record.as_ref(), from, &events)))
}

/// `GET /admin/runs/{runId}/events`: the stream that the run's owner reads as well.
pub(super) async fn follow(
    State(edge): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    run_id: PathId,
) -> Result<Response, Error> {
    let (streams, run) = events::find_anybodys(&edge, run_id).await?;
    let location = format!("/admin/runs/{}/events", run.run_id);
    events::follow(&edge, &caller, Follow { streams, run: &run, headers: &headers, location }).await
}

/// `POST /admin/runs/{runId}/cancel`.
pub(super) async fn cancel(State(edge): State<Shared>, run_id: PathId) -> Result<Response, Error> {
    let (streams, run) = events::find_anybodys(&edge, run_id).await?;
    events::cancel(&edge, streams, &run).await
}
