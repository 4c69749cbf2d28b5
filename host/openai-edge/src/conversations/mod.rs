//! `/v1/conversations`: the conversations of `/api/agent/conversations` for clients of OpenAI.
//!
//! A conversation that is begun here has an id of the service's choice, `conv_…`; one that was named
//! elsewhere is found under that name. Nothing has to be said in it: a turn without messages keeps it.

pub(super) mod added_items;
pub(super) mod items;

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use agent_core::ports::Deletion;
use agent_core::words::{Conversation, is_conversation_id};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use run_service::conversations::{ConversationRefusal, Held};
use run_service::held_lease::new_owner;
use run_service::layers::InvokeError;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::documented;
use super::input::{metadata, parameters};
use super::responses::{item_schema, request_schema};
use super::run::conversation_state::OWN_NAME;
use http_edge::answer;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::request::Field;
use http_edge::request::path_id::{PathId, check_id, id};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::conversations::{busy, unavailable};
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

pub(super) const ID: Field = id("conversationId", "The conversation.", || json!(EXAMPLE));

const EXAMPLE: &str = "conv_01a204ec6206715fbb305322b42db99d";

pub(super) fn describe_create() -> Operation {
    Operation::new("createOpenAiConversation", tags::OPENAI, "Begin a conversation")
        .about("Its id can be the `conversation` of responses, and `conversationId` under `/api/agent`.")
        .request_id()
        .json_body(item_schema::CREATE, item_schema::create(), false)
        .defines(request_schema::items())
        .answers::<Shown>(StatusCode::OK, "The conversation")
        .refuses([Problem::invalid("items", "it may have at most 20.")])
        .refuses(of_variant::bodies().map(documented::in_form))
        .refuses(of_variant::conversations().map(documented::in_form))
        .refuses(of_variant::stores().map(documented::in_form))
}

pub(super) fn describe_read() -> Operation {
    let operation =
        Operation::new("readOpenAiConversation", tags::OPENAI, "Read what is known of a conversation");
    of_one(operation)
}

pub(super) fn describe_update() -> Operation {
    let operation =
        Operation::new("updateOpenAiConversation", tags::OPENAI, "Attach other metadata to a conversation");
    let operation = operation.request_id().json_body(item_schema::UPDATE, item_schema::update(), true);
    of_one(operation)
        .refuses([Problem::missing("metadata")])
        .refuses(of_variant::bodies().map(documented::in_form))
        .refuses(of_variant::conversations().map(documented::in_form))
}

pub(super) fn describe_delete() -> Operation {
    Operation::new("deleteOpenAiConversation", tags::OPENAI, "Forget a conversation")
        .about("Not while a run is part of it. Kept responses stay.")
        .path(ID)
        .answers::<Deleted>(StatusCode::OK, "It is gone")
        .refuses([Problem::unknown_conversation("conv_1")])
        .refuses(of_variant::conversations().map(documented::in_form))
        .refuses(of_variant::stores().map(documented::in_form))
}

/// A route whose answer is a conversation of that id.
pub(super) fn of_one(operation: Operation) -> Operation {
    operation
        .path(ID)
        .answers::<Shown>(StatusCode::OK, "The conversation")
        .refuses([Problem::unknown_conversation("conv_1")])
        .refuses(of_variant::stores().map(documented::in_form))
}

/// What is known of a conversation.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiConversation)]
struct Shown {
    /// Names the conversation, here and under `/api/agent`.
    #[schema(example = "conv_01a204ec6206715fbb305322b42db99d")]
    id: String,
    /// Says `conversation` in all of them.
    #[schema(example = "conversation")]
    object: &'static str,
    /// When it was begun, in seconds since 1970.
    #[schema(example = 1_795_478_400)]
    created_at: u64,
    /// What its client attached to it.
    #[schema(example = json!({ "order": "4711" }))]
    metadata: BTreeMap<String, String>,
}

/// Confirms that a conversation is gone.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiDeletedConversation)]
struct Deleted {
    /// Names the conversation that is gone.
    #[schema(example = "conv_01a204ec6206715fbb305322b42db99d")]
    id: String,
    /// Says `conversation.deleted` in all of them.
    #[schema(example = "conversation.deleted")]
    object: &'static str,
    /// Whether it is gone: always true.
    #[schema(example = true)]
    deleted: bool,
}

/// `POST /v1/conversations`. Carried out again under its idempotency key it finds what it has begun.
pub(super) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let fields = parameters::fields(read_json(payload, &edge.settings).await?)?;
    let turn_id = asking.turn_id().unwrap_or_else(new_owner);
    let id = format!("{OWN_NAME}{turn_id}");
    let mut turn = added_items::read(fields.get("items"), &[], turn_id)?;
    turn.metadata = metadata::read(fields.get("metadata"))?;
    let user_id = asking.caller.id();
    let held = edge.variant.conversations.hold(user_id, &id, &new_owner()).await.map_err(refused)?;
    held.append(turn).await.map_err(refused)?;
    show(&edge, user_id, &id).await
}

/// Answers `GET /v1/conversations/{conversation_id}` with the conversation.
pub(super) async fn read(State(edge): State<Shared>, caller: Caller, id: PathId) -> Result<Response, Error> {
    show(&edge, caller.id(), &read_id(check_id(id))?).await
}

/// Answers `POST /v1/conversations/{conversation_id}` with the changed conversation.
pub(super) async fn update(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
    payload: Payload,
) -> Result<Response, Error> {
    let id = read_id(check_id(id))?;
    let body = read_json(payload, &edge.settings).await?;
    // `null` takes them away.
    let metadata = metadata::read(Some(body.get("metadata").ok_or_else(|| Problem::missing("metadata"))?))?;
    let held = hold(&edge, caller.id(), &id).await?;
    let mut turns = held.turns().to_vec();
    if let Some(last) = turns.last_mut() {
        last.metadata = metadata;
    }
    held.replace(&turns).await.map_err(refused)?;
    show(&edge, caller.id(), &id).await
}

/// Answers `DELETE /v1/conversations/{conversation_id}`, unless a run holds it.
pub(super) async fn delete(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(check_id(id))?;
    match edge.variant.conversations.delete(caller.id(), &id).await.map_err(unavailable)? {
        Deletion::Done => {
            let deleted = Deleted { id, object: "conversation.deleted", deleted: true };
            Ok(answer::json(StatusCode::OK, &deleted))
        }
        Deletion::Busy => Err(busy()),
        Deletion::Unknown => Err(Problem::unknown_conversation(&id).into()),
    }
}

/// Answers with what is known of a conversation.
pub(super) async fn show(edge: &Shared, user_id: &str, id: &str) -> Result<Response, Error> {
    let Conversation { id, turns, created_at, .. } = find(edge, user_id, id).await?;
    let since = created_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let metadata = turns.into_iter().next_back().map(|last| last.metadata).unwrap_or_default();
    let shown = Shown { id, object: "conversation", created_at: since.as_secs(), metadata };
    Ok(answer::json(StatusCode::OK, &shown))
}

/// A conversation of that user. One whose first run has not ended is none yet.
pub(super) async fn find(edge: &Shared, user_id: &str, id: &str) -> Result<Conversation, Error> {
    let kept = edge.variant.conversations.read(user_id, id).await.map_err(unavailable)?;
    let kept = kept.filter(|kept| !kept.turns.is_empty());
    Ok(kept.ok_or_else(|| Problem::unknown_conversation(id))?)
}

/// Claims a conversation that is there, to change it.
pub(super) async fn hold(edge: &Shared, user_id: &str, id: &str) -> Result<Held, Error> {
    // Claiming one that is not there would begin it.
    find(edge, user_id, id).await?;
    let held = edge.variant.conversations.hold(user_id, id, &new_owner()).await.map_err(refused)?;
    if held.turns().is_empty() {
        held.release().await;
        return Err(Problem::unknown_conversation(id).into());
    }
    Ok(held)
}

pub(super) fn refused(refusal: ConversationRefusal) -> Error {
    InvokeError::Conversation(refusal).into()
}

pub(super) fn read_id(id: Option<String>) -> Result<String, Problem> {
    let id = id.unwrap_or_default();
    if is_conversation_id(&id) { Ok(id) } else { Err(Problem::unknown_conversation(&id)) }
}
