//! The body of Variant A's answers: `{result}`.

use agent_core::words::AgentResult;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::result_json::ResultBody;

/// The answer to a run.
#[derive(Serialize, ToSchema)]
#[schema(as = InvokeResponse)]
pub(super) struct Success<'a> {
    /// What the run came to.
    result: ResultBody<'a>,
}

impl<'a> From<&'a AgentResult> for Success<'a> {
    fn from(result: &'a AgentResult) -> Self {
        Self { result: ResultBody::from(result) }
    }
}
