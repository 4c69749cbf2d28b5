//! `GET` and `DELETE /v1/responses/{response_id}`: a response that was kept, as its client was given it.

use agent_core::ports::Deletion;
use agent_core::words::{CancelOutcome, is_conversation_id};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::super::documented;
use super::{background, current_response, response_schema};
use http_edge::answer;
use http_edge::openapi::{Operation, tags};
use http_edge::request::path_id::{PathId, check_id, id};
use http_edge::request::{Field, FromJson, Kind, Object, read_query, request};
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::conversations::{busy, unavailable};
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

pub(crate) fn describe_read() -> Operation {
    Operation::new("readOpenAiResponse", tags::OPENAI, "Read a response that was kept")
        .about(
            "The newest responses of a user are kept, unless their request had `store` false. One in the background is \
             shown as it stands, or with `stream` as its events, which it has had or will have.",
        )
        .path(ID)
        .query::<ResponseReading>()
        .defines(response_schema::all())
        .answers_named(response_schema::RESPONSE, "The response, as its request was answered")
        .streams("Typed events of a response in the background, behind that of the number `starting_after`")
        .refuses([in_foreground(), Error::TooManyStreams].map(documented::in_form))
        .refuses([Problem::unknown_response("resp_1")])
        .refuses(of_variant::stores().map(documented::in_form))
}

pub(crate) fn describe_delete() -> Operation {
    Operation::new("deleteOpenAiResponse", tags::OPENAI, "Forget a response")
        .about("Those that go on from it stay as they are.")
        .path(ID)
        .answers::<Deleted<'static>>(StatusCode::OK, "It is gone")
        .refuses([Problem::unknown_response("resp_1")])
        .refuses([Error::JobOutOfReach].map(documented::in_form))
        .refuses(of_variant::stores().map(documented::in_form))
}

pub(crate) const ID: Field =
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

request! {
    /// How a response is read.
    pub(crate) struct ResponseReading = Object::OPEN;

    /// Whether the answer is a stream. Only a response in the background can be streamed again.
    stream: IsStreamed = Field::new("stream", Kind::Word { words: || vec!["true", "false"], most_quoted: 16 })
        .default(|| json!("false"))
        .example(|| json!("true"));

    /// The `sequence_number` of the last event that the client has: the stream goes on behind it.
    starting_after: Option<u64> = Field::new("starting_after", Kind::Digits).example(|| json!(42));
}

/// Whether the answer is a stream, as a query string says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsStreamed(bool);

impl FromJson for IsStreamed {
    fn from_json(value: Option<Value>) -> Option<Self> {
        Some(Self(value?.as_str()? == "true"))
    }
}

/// `GET /v1/responses/{response_id}?stream=&starting_after=`.
pub(crate) async fn read(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    let ResponseReading { stream: IsStreamed(is_streamed), starting_after } = read_query(query.as_deref())?;
    let kept = current_response::current(&edge.variant, caller.id(), &id).await?;
    let Some(kept) = kept else {
        return Err(current_response::unknown(&edge.variant, caller.id(), &id).await);
    };
    if !is_streamed {
        return Ok(answer::json_bytes(StatusCode::OK, kept.shown));
    }
    if !kept.is_background {
        return Err(in_foreground());
    }
    let shown = current_response::parsed(&kept.shown);
    background::follow(&edge, caller.id(), current_response::job_of(&id), shown, starting_after).await
}

/// Nobody kept the events of a response that is not in the background.
fn in_foreground() -> Error {
    let why = "only a response that was created with `background` true can be streamed again: leave it out.";
    Problem::invalid("stream", why).into()
}

/// `DELETE /v1/responses/{response_id}`.
pub(crate) async fn delete(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    // Nobody could cancel it any more.
    let is_open =
        current_response::current(&edge.variant, caller.id(), &id).await?.is_some_and(|kept| kept.is_open);
    let job_id = current_response::job_of(&id);
    if is_open && edge.variant.jobs.cancel(caller.id(), job_id).await? == CancelOutcome::Refused {
        return Err(Error::JobOutOfReach);
    }
    match edge.variant.conversations.delete_response(caller.id(), &id).await.map_err(unavailable)? {
        // No run holds a response.
        Deletion::Busy => Err(busy()),
        // An open one that newer ones had taken the place of is cancelled.
        Deletion::Unknown if !is_open => Err(Problem::unknown_response(&id).into()),
        Deletion::Done | Deletion::Unknown => {
            Ok(answer::json(StatusCode::OK, &Deleted { id: &id, object: "response", deleted: true }))
        }
    }
}

pub(crate) fn read_id(id: PathId) -> Result<String, Error> {
    let id = check_id(id).unwrap_or_default();
    if is_conversation_id(&id) { Ok(id) } else { Err(Problem::unknown_response(&id).into()) }
}
