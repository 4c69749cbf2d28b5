//! `/api/agent/jobs`: reading, listing and cancelling one's own jobs. What belongs to somebody else does not
//! exist (host/docs/interface/decisions-runs.md#jobs).

use std::time::Duration;

use agent_core::words::{CancelOutcome, Job, JobPage, JobQuery, JobStatus};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use run_service::waits::{JobWait, NotDecided};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::auth::Caller;
use super::documented;
use super::error::Error;
use super::job_accepted::Accepted;
use super::parameters::{JobListing, Wait};
use super::state::Shared;
use super::timestamp::iso_8601;
use super::wait_body::WaitBody;
use crate::answer;
use crate::answer::result_json::ResultBody;
use crate::openapi::{Operation, tags};
use crate::request::path_id::{PathId, check_id, id};
use crate::request::{Field, read_query};

pub(super) fn describe_job() -> Operation {
    Operation::new("readJob", tags::JOBS, "Read a job, or wait until it has ended")
        .path(ID)
        .query::<Wait>()
        .answers::<JobBody<'static>>(StatusCode::OK, "The job")
        .refuses([Error::UnknownJob])
        .refuses(documented::stores())
}

pub(super) fn describe_list() -> Operation {
    Operation::new("listJobs", tags::JOBS, "List one's jobs, the newest first")
        .query::<JobListing>()
        .answers::<PageBody<'static>>(StatusCode::OK, "A page of them")
        .refuses(documented::stores())
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new("cancelJob", tags::JOBS, "Cancel a job")
        .about("Its work stops, and only then does its status say `cancelled`.")
        .path(ID)
        .answers::<Accepted<'static>>(StatusCode::ACCEPTED, "It is cancelled, or will be")
        .refuses([Error::UnknownJob, Error::JobHadEnded, Error::JobOutOfReach])
        .refuses(documented::stores())
}

pub(super) const ID: Field = id("jobId", "The job, as its submission named it.", || json!("1"));

/// `GET /api/agent/jobs/{jobId}?wait=`: one job, held back until it has ended if that is asked for.
pub(super) async fn read_job(
    State(edge): State<Shared>,
    caller: Caller,
    job_id: PathId,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    let Wait { wait } = read_query(query.as_deref())?;
    let wait = Duration::from_secs_f64(wait.abs());
    let job = edge.variant.jobs.read(caller.id(), &job_id, wait).await?.ok_or(Error::UnknownJob)?;
    if job.status != JobStatus::Parked {
        return Ok(answer::json(StatusCode::OK, &JobBody::from(&job)));
    }
    let waits = edge.variant.waits.of_job(&job).await.map_err(NotDecided::from)?;
    Ok(answer::visible_json(StatusCode::OK, &JobBody::from(&job).waiting_for(&waits)))
}

/// `GET /api/agent/jobs?status=&limit=&cursor=`: a page of one's jobs, the newest first.
pub(super) async fn list_jobs(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let listing: JobListing = read_query(query.as_deref())?;
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
    job_id: PathId,
) -> Result<Response, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    match edge.variant.jobs.cancel(caller.id(), &job_id).await? {
        CancelOutcome::Done | CancelOutcome::Asked => {
            Ok(answer::json(StatusCode::ACCEPTED, &Accepted { job_id: &job_id }))
        }
        CancelOutcome::HadEnded => Err(Error::JobHadEnded),
        CancelOutcome::Refused => Err(Error::JobOutOfReach),
        CancelOutcome::Unknown => Err(Error::UnknownJob),
    }
}

/// A job as its owner sees it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub(super) struct JobBody<'a> {
    /// Names it.
    #[schema(example = "1")]
    job_id: &'a str,
    /// Where it stands.
    #[schema(value_type = JobStatus)]
    status: &'static str,
    /// The job whose run began this one, and waits for it or did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "1")]
    parent_job_id: Option<&'a str>,
    /// What its run came to, once it is completed. A worker of another program on the same queue may have
    /// kept something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ResultBody<'static>>, nullable = false)]
    result: Option<&'a RawValue>,
    /// Why it failed, or failed the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "the agent run failed")]
    error: Option<&'a str>,
    /// What it waits for, while its status is `parked`. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    waits: Option<Vec<WaitBody>>,
    /// Attempts that have ended.
    #[schema(example = 1)]
    attempts_made: u32,
    /// When it was submitted.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    created_at: String,
    /// When its last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime, example = "2026-11-21T12:00:00.010Z")]
    started_at: Option<String>,
    /// When it ended for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime, example = "2026-11-21T12:00:01.500Z")]
    finished_at: Option<String>,
}

/// A page of a list of jobs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobPage)]
struct PageBody<'a> {
    /// The jobs, the newest first.
    data: Vec<JobBody<'a>>,
    /// What `cursor` has to be for the next page; null when this is the last one.
    #[schema(required = true, example = "41")]
    next_cursor: Option<String>,
}

impl JobBody<'_> {
    /// A parked job with what it waits for; any other as it is.
    pub(super) fn waiting_for(self, waits: &[JobWait]) -> Self {
        let is_parked = self.status == JobStatus::Parked.as_str();
        Self { waits: is_parked.then(|| waits.iter().map(WaitBody::from).collect()), ..self }
    }

    /// The same without its result, which may be large.
    pub(super) fn without_result(self) -> Self {
        Self { result: None, ..self }
    }
}

impl<'a> From<&'a Job> for JobBody<'a> {
    fn from(job: &'a Job) -> Self {
        Self {
            job_id: &job.id,
            status: job.status.as_str(),
            parent_job_id: job.parent.as_deref().and_then(agent_core::words::Wait::job_of),
            result: job.result.as_deref(),
            error: job.error.as_deref(),
            waits: None,
            attempts_made: job.attempts_made,
            created_at: iso_8601(job.created_at),
            started_at: job.started_at.map(iso_8601),
            finished_at: job.finished_at.map(iso_8601),
        }
    }
}
