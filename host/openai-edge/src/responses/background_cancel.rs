//! `POST /v1/responses/{response_id}/cancel`: cancels a response in the background. Done again, it answers
//! the response as it is.

use std::time::Duration;

use agent_core::words::{CancelOutcome, JobStatus};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::super::documented;
use super::current_response::{current, job_of, parsed, unknown};
use super::response::Frame;
use super::response_schema;
use super::stored::{ID, read_id};
use http_edge::answer;
use http_edge::openapi::{Operation, tags};
use http_edge::request::path_id::PathId;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

/// How long the answer is held back until the work has stopped: a worker of another process hears of it
/// within about a second.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn describe() -> Operation {
    Operation::new("cancelOpenAiResponse", tags::OPENAI, "Cancel a response in the background")
        .about("The answer is given when the work has stopped. One that has ended is answered as it is.")
        .path(ID)
        .defines(response_schema::all())
        .answers_named(response_schema::RESPONSE, "The response, cancelled or as it had ended")
        .refuses([Problem::unknown_response("resp_1"), in_foreground()])
        .refuses([Error::JobOutOfReach].map(documented::in_form))
        .refuses(of_variant::stores().map(documented::in_form))
}

/// Cancels a response of the caller.
pub(crate) async fn cancel(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    let Some(mut response) = current(&edge.variant, caller.id(), &id).await? else {
        return Err(unknown(&edge.variant, caller.id(), &id).await);
    };
    if !response.is_background {
        return Err(in_foreground().into());
    }
    if response.is_open {
        match edge.variant.jobs.cancel(caller.id(), job_of(&id)).await? {
            CancelOutcome::Refused => return Err(Error::JobOutOfReach),
            CancelOutcome::Done | CancelOutcome::Asked | CancelOutcome::HadEnded | CancelOutcome::Unknown => {
            }
        }
        let job = edge.variant.jobs.read(caller.id(), job_of(&id), STOPS_WITHIN).await?;
        let is_cancelled = job.is_some_and(|job| job.status == JobStatus::Cancelled);
        response.shown = match current(&edge.variant, caller.id(), &id).await? {
            Some(response) => response.shown,
            // Newer ones have taken its place, and its job goes on no more.
            None if is_cancelled => Frame::of_kept(parsed(&response.shown)).cancelled().to_string(),
            None => return Err(unknown(&edge.variant, caller.id(), &id).await),
        };
    }
    Ok(answer::json_bytes(StatusCode::OK, response.shown))
}

fn in_foreground() -> Problem {
    let why = "only a response that was created with `background` true can be cancelled.";
    Problem::invalid("response_id", why)
}
