//! `/api/agent/jobs`: reading, listing and cancelling one's own jobs. What belongs to somebody else does not
//! exist (decisions, "Reading a job").

use agent_core::words::{CancelOutcome, Job, JobPage, JobQuery};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::auth::Caller;
use super::error::Error;
use super::parameters;
use super::state::Shared;
use super::submit::Accepted;
use super::timestamp::iso_8601;
use crate::answer;

/// Longer than any id of a queue, in bytes.
const LONGEST_ID: usize = 256;

type JobId = Result<Path<String>, PathRejection>;

/// `GET /api/agent/jobs/{jobId}?wait=`: one job, held back until it has ended if that is asked for.
pub(super) async fn read_job(
    State(edge): State<Shared>,
    caller: Caller,
    job_id: JobId,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let job_id = check_id(job_id)?;
    let wait = parameters::read_wait(query.as_deref())?;
    let job = edge.variant.jobs.read(caller.id(), &job_id, wait).await?.ok_or(Error::UnknownJob)?;
    Ok(answer::json(StatusCode::OK, &JobBody::from(&job)))
}

/// `GET /api/agent/jobs?status=&limit=&cursor=`: a page of one's jobs, the newest first.
pub(super) async fn list_jobs(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let listing = parameters::read_listing(query.as_deref())?;
    let wanted = JobQuery {
        user_id: caller.id(),
        status: listing.status,
        limit: listing.limit,
        cursor: listing.cursor.as_deref(),
    };
    let JobPage { jobs, next_cursor } = edge.variant.jobs.list(&wanted).await?;
    let page = PageBody { data: jobs.iter().map(JobBody::from).collect(), next_cursor };
    Ok(answer::json(StatusCode::OK, &page))
}

/// `POST /api/agent/jobs/{jobId}/cancel`: the job is cancelled, or will be as soon as its work has stopped.
pub(super) async fn cancel_job(
    State(edge): State<Shared>,
    caller: Caller,
    job_id: JobId,
) -> Result<Response, Error> {
    let job_id = check_id(job_id)?;
    match edge.variant.jobs.cancel(caller.id(), &job_id).await? {
        CancelOutcome::Done | CancelOutcome::Asked => {
            Ok(answer::json(StatusCode::ACCEPTED, &Accepted { job_id: &job_id }))
        }
        CancelOutcome::HadEnded => Err(Error::JobHadEnded),
        CancelOutcome::Refused => Err(Error::JobOutOfReach),
        CancelOutcome::Unknown => Err(Error::UnknownJob),
    }
}

/// What no queue can have given as an id is not even looked for: it could be too much for a store.
fn check_id(job_id: JobId) -> Result<String, Error> {
    match job_id {
        Ok(Path(id)) if id.len() <= LONGEST_ID && !id.contains(char::is_control) => Ok(id),
        Ok(_) | Err(_) => Err(Error::UnknownJob),
    }
}

/// A job as its owner sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobBody<'a> {
    job_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    attempts_made: u32,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageBody<'a> {
    data: Vec<JobBody<'a>>,
    next_cursor: Option<String>,
}

impl<'a> From<&'a Job> for JobBody<'a> {
    fn from(job: &'a Job) -> Self {
        Self {
            job_id: &job.id,
            status: job.status.as_str(),
            result: job.result.as_deref(),
            error: job.error.as_deref(),
            attempts_made: job.attempts_made,
            created_at: iso_8601(job.created_at),
            started_at: job.started_at.map(iso_8601),
            finished_at: job.finished_at.map(iso_8601),
        }
    }
}
