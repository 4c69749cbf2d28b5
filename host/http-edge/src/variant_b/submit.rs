//! `POST /api/agent/async`: `{query}` in, the id of a job out.

use agent_core::words::JobData;
use axum::extract::State;
use axum::response::Response;
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::auth::Caller;
use super::error::Error;
use super::schema;
use super::state::Shared;
use crate::answer;
use crate::body::Payload;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accepted<'a> {
    pub(super) job_id: &'a str,
}

pub(super) async fn submit_job(
    State(edge): State<Shared>,
    caller: Caller,
    payload: Payload,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &edge.settings).await?;
    let query = schema::read_long_query(body)?;
    let job = JobData::submitted_by(caller.principal(), query);
    let job_id = edge.variant.jobs.submit(&job).await?;
    let mut response = answer::json(StatusCode::ACCEPTED, &Accepted { job_id: &job_id });
    // Queues give plain ids; one that no header could carry is in the body all the same.
    if let Ok(location) = HeaderValue::try_from(format!("/api/agent/jobs/{job_id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}
