//! Everybody's jobs: how many there are, those of a user, one, cancelling it, and trying it again.

use agent_core::words::{CancelOutcome, Job, JobPage, JobQuery};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use run_service::webhooks::Webhooks;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::documented::stores;
use super::super::error::Error;
use super::super::jobs::{ID, JobBody};
use super::super::state::Shared;
use super::super::to_the_end::to_the_end;
use super::listing::JobsOf;
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::request::path_id::{PathId, check_id};
use crate::request::read_query;

pub(super) fn describe_depth() -> Operation {
    Operation::new("readQueue", tags::OPERATIONS, "Say how many jobs there are")
        .answers::<QueueDepth>(StatusCode::OK, "Everybody's jobs that have not ended")
        .refuses(stores())
}

pub(super) fn describe_list() -> Operation {
    Operation::new("listJobsOf", tags::OPERATIONS, "List a user's jobs, the newest first")
        .query::<JobsOf>()
        .answers::<Page<'static>>(StatusCode::OK, "A page of them, without their results")
        .refuses(stores())
}

pub(super) fn describe_job() -> Operation {
    Operation::new("showJob", tags::OPERATIONS, "Read anybody's job")
        .path(ID)
        .answers::<AdminJob<'static>>(StatusCode::OK, "The job")
        .refuses([Error::UnknownJob])
        .refuses(stores())
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new("stopJob", tags::OPERATIONS, "Cancel anybody's job")
        .path(ID)
        .answers::<Changed<'static>>(StatusCode::ACCEPTED, "It is cancelled, or will be")
        .refuses([Error::UnknownJob, Error::JobHadEnded, Error::JobOutOfReach])
        .refuses(stores())
}

pub(super) fn describe_retry() -> Operation {
    Operation::new("retryJob", tags::OPERATIONS, "Try a job again that failed for good")
        .about(
            "One more attempt, in a run of its own. What that waits for and its end go to the job's webhook.",
        )
        .path(ID)
        .answers::<Changed<'static>>(StatusCode::ACCEPTED, "It waits for a worker")
        .refuses([Error::UnknownJob, Error::JobNotFailed, Error::JobOfChildRun { parent: "1".to_owned() }])
        .refuses(stores())
}

/// `GET /admin/queue`.
pub(super) async fn depth(State(edge): State<Shared>) -> Result<Response, Error> {
    let depth = edge.variant.queue.depth().await?;
    let body = QueueDepth {
        waiting: depth.waiting,
        active: depth.active,
        delayed: depth.delayed,
        parked: depth.parked,
        oldest_waiting_seconds: depth.oldest_waiting.map(|waited| waited.as_secs_f64()),
    };
    Ok(answer::json(StatusCode::OK, &body))
}

/// `GET /admin/jobs?user=&status=&limit=&cursor=`.
pub(super) async fn list(State(edge): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let wanted: JobsOf = read_query(query.as_deref())?;
    let query = JobQuery {
        user_id: &wanted.user,
        status: wanted.status,
        limit: wanted.limit,
        cursor: wanted.cursor.as_deref(),
    };
    let JobPage { jobs, next_cursor } = edge.variant.jobs.list(&query).await?;
    let data = jobs.iter().map(|job| AdminJob::new(job, JobBody::from(job).without_result())).collect();
    Ok(answer::visible_json(StatusCode::OK, &Page { data, next_cursor }))
}

/// `GET /admin/jobs/{jobId}`.
pub(super) async fn read(State(edge): State<Shared>, job_id: PathId) -> Result<Response, Error> {
    let job = find(&edge, job_id).await?;
    Ok(answer::visible_json(StatusCode::OK, &AdminJob::new(&job, JobBody::from(&job))))
}

/// `POST /admin/jobs/{jobId}/cancel`.
pub(super) async fn cancel(State(edge): State<Shared>, job_id: PathId) -> Result<Response, Error> {
    let job = find(&edge, job_id).await?;
    match edge.variant.jobs.cancel(&job.user_id, &job.id).await? {
        CancelOutcome::Done | CancelOutcome::Asked => {
            Ok(answer::json(StatusCode::ACCEPTED, &Changed { job_id: &job.id }))
        }
        CancelOutcome::HadEnded => Err(Error::JobHadEnded),
        CancelOutcome::Refused => Err(Error::JobOutOfReach),
        CancelOutcome::Unknown => Err(Error::UnknownJob),
    }
}

/// `POST /admin/jobs/{jobId}/retry`. A task of its own writes: a request that its client left between the
/// writes would have the failure sent once more and the job not tried again.
pub(super) async fn retry(State(edge): State<Shared>, job_id: PathId) -> Result<Response, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    let (shared, id) = (edge.clone(), job_id.clone());
    let work = async move {
        let outbox = shared.variant.webhooks.as_ref().map(Webhooks::outbox);
        run_service::jobs::retry(&*shared.variant.queue, outbox, &id).await
    };
    to_the_end(&edge, "job-retry", work).await??;
    Ok(answer::json(StatusCode::ACCEPTED, &Changed { job_id: &job_id }))
}

/// A job that the queue has. What it has dropped is in the list of runs.
async fn find(edge: &Shared, job_id: PathId) -> Result<Job, Error> {
    let job_id = check_id(job_id).ok_or(Error::UnknownJob)?;
    edge.variant.queue.read(&job_id).await?.ok_or(Error::UnknownJob)
}

/// How many jobs there are.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueDepth {
    /// Waiting for a worker.
    #[schema(example = 3)]
    waiting: u64,
    /// Being worked on.
    #[schema(example = 5)]
    active: u64,
    /// Waiting until their next attempt is due.
    #[schema(example = 1)]
    delayed: u64,
    /// Jobs whose runs wait for somebody, counted to 10,000; on Redis they are among the delayed ones.
    #[schema(example = 0)]
    parked: u64,
    /// For how long the one has waited that has waited longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, example = 1.25)]
    oldest_waiting_seconds: Option<f64>,
}

/// A job, whose it is, and its run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AdminJob<'a> {
    #[serde(flatten)]
    job: JobBody<'a>,
    /// Whose it is.
    #[schema(example = "user-1")]
    user_id: &'a str,
    /// The run that its attempts make.
    #[schema(example = "run_01a204ec6206715fbb305322b42db99d")]
    run_id: &'a str,
}

impl<'a> AdminJob<'a> {
    fn new(Job { user_id, run_id, .. }: &'a Job, job: JobBody<'a>) -> Self {
        Self { job, user_id, run_id }
    }
}

/// A page of a list of jobs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AdminJobPage)]
struct Page<'a> {
    /// The jobs, the newest first.
    data: Vec<AdminJob<'a>>,
    /// What `cursor` has to be for the next page; null when this is the last one.
    #[schema(required = true, example = "41")]
    next_cursor: Option<String>,
}

/// The job that was changed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChangedJob)]
struct Changed<'a> {
    /// Names it.
    #[schema(example = "1")]
    job_id: &'a str,
}
