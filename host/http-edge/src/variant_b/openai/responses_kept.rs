//! `GET` and `DELETE /v1/responses/{response_id}`: a response that was kept, as its client was given it.

use agent_core::ports::Deletion;
use agent_core::words::is_conversation_id;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::super::auth::Caller;
use super::super::conversations::{busy, unavailable};
use super::super::documented as of_variant;
use super::super::error::Error;
use super::super::error::Problem;
use super::super::state::Shared;
use super::documented;
use super::response_schema;
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::path_id::{PathId, check_id, id};
use crate::request::Field;

pub(super) fn describe_read() -> Operation {
    Operation::new("readOpenAiResponse", tags::OPENAI, "Read a response that was kept")
        .about("The newest responses of a user are kept, unless their request had `store` false.")
        .path(ID)
        .defines(response_schema::all())
        .answers_named(response_schema::RESPONSE, "The response, as its request was answered")
        .refuses([Problem::unknown_response("resp_1")])
        .refuses(of_variant::stores().map(documented::in_form))
}

pub(super) fn describe_delete() -> Operation {
    Operation::new("deleteOpenAiResponse", tags::OPENAI, "Forget a response")
        .about("Those that go on from it stay as they are.")
        .path(ID)
        .answers::<Deleted<'static>>(StatusCode::OK, "It is gone")
        .refuses([Problem::unknown_response("resp_1")])
        .refuses(of_variant::stores().map(documented::in_form))
}

pub(super) const ID: Field =
    id("response_id", "The response.", || json!("resp_01a204ec6206715fbb305322b42db99d"));

/// That a response is gone.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiDeletedResponse)]
struct Deleted<'a> {
    /// The response.
    #[schema(example = "resp_01a204ec6206715fbb305322b42db99d")]
    id: &'a str,
    /// Always `response`.
    #[schema(example = "response")]
    object: &'static str,
    /// Always true.
    #[schema(example = true)]
    deleted: bool,
}

/// `GET /v1/responses/{response_id}`.
pub(super) async fn read(State(edge): State<Shared>, caller: Caller, id: PathId) -> Result<Response, Error> {
    let id = read_id(id)?;
    let kept = edge.variant.conversations.response(caller.id(), &id).await.map_err(unavailable)?;
    let shown = kept.and_then(|kept| kept.shown).ok_or_else(|| Problem::unknown_response(&id))?;
    Ok(answer::json_bytes(StatusCode::OK, shown))
}

/// `DELETE /v1/responses/{response_id}`.
pub(super) async fn delete(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    match edge.variant.conversations.delete_response(caller.id(), &id).await.map_err(unavailable)? {
        Deletion::Done => {
            Ok(answer::json(StatusCode::OK, &Deleted { id: &id, object: "response", deleted: true }))
        }
        // No run holds a response.
        Deletion::Busy => Err(busy()),
        Deletion::Unknown => Err(Problem::unknown_response(&id).into()),
    }
}

pub(super) fn read_id(id: PathId) -> Result<String, Error> {
    let id = check_id(id).unwrap_or_default();
    if is_conversation_id(&id) { Ok(id) } else { Err(Problem::unknown_response(&id).into()) }
}
