//! The body that names a job which was taken.

use serde::Serialize;
use utoipa::ToSchema;

/// A job that was taken.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobAccepted)]
pub(super) struct Accepted<'a> {
    /// Names the job, in `/api/agent/jobs/{jobId}`.
    #[schema(example = "1")]
    pub(super) job_id: &'a str,
}
