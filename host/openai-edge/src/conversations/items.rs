//! `/v1/conversations/{conversation_id}/items`: what was said in a conversation, item by item.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use run_service::held_lease::new_owner;
use serde_json::json;

use super::super::conversations::{ID, find, hold, of_one, read_id, refused, show};
use super::super::documented;
use super::super::input::parameters;
use super::super::items::pages::{ItemListing, list as list_object};
use super::super::items::turn_items::{of_turns, without};
use super::super::responses::{item_schema, request_schema};
use super::added_items;
use http_edge::answer;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::request::path_id::{PathId, check_id, id, may_be_id};
use http_edge::request::{Field, read_query};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

const ITEM_ID: Field = id("item_id", "The item.", || json!("msg_01a204ec6206715fbb305322b42db99d"));

pub(crate) fn describe_list() -> Operation {
    item_schema::define(Operation::new(
        "listOpenAiConversationItems",
        tags::OPENAI,
        "List what was said in a conversation",
    ))
    .about("Of a long conversation the oldest turns are not kept.")
    .path(ID)
    .query::<ItemListing>()
    .answers_named(item_schema::LIST, "A page of items")
    .refuses([
        Problem::unknown_conversation("conv_1"),
        Problem::invalid("limit", "Number must be less than or equal to 100."),
    ])
    .refuses(of_variant::stores().map(documented::in_form))
}

pub(crate) fn describe_create() -> Operation {
    item_schema::define(Operation::new(
        "addOpenAiConversationItems",
        tags::OPENAI,
        "Add to a conversation without a run",
    ))
    .about("All items of a request are one turn of the conversation.")
    .path(ID)
    .request_id()
    .json_body(item_schema::ADD, item_schema::add(), true)
    .defines(request_schema::items())
    .answers_named(item_schema::LIST, "The items as they are kept")
    .refuses([Problem::unknown_conversation("conv_1"), Problem::missing("items")])
    .refuses(of_variant::bodies().map(documented::in_form))
    .refuses(of_variant::conversations().map(documented::in_form))
    .refuses(of_variant::stores().map(documented::in_form))
}

pub(crate) fn describe_read() -> Operation {
    item_schema::define(Operation::new(
        "readOpenAiConversationItem",
        tags::OPENAI,
        "Read an item of a conversation",
    ))
    .path(ID)
    .path(ITEM_ID)
    .answers_named(item_schema::ITEM, "The item")
    .refuses([Problem::unknown_conversation("conv_1"), Problem::unknown_conversation_item("msg_1")])
    .refuses(of_variant::stores().map(documented::in_form))
}

pub(crate) fn describe_delete() -> Operation {
    let operation =
        Operation::new("deleteOpenAiConversationItem", tags::OPENAI, "Forget an item of a conversation");
    of_one(operation)
        .path(ITEM_ID)
        .about("With a call of the agent's own tools its answer goes.")
        .refuses([Problem::unknown_conversation_item("msg_1")])
        .refuses(of_variant::conversations().map(documented::in_form))
}

/// Answers `GET /v1/conversations/{conversation_id}/items` with a page of items.
pub(crate) async fn list(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(check_id(id))?;
    let listing: ItemListing = read_query(query.as_deref())?;
    let kept = find(&edge, caller.id(), &id).await?;
    Ok(answer::json(StatusCode::OK, &listing.page(of_turns(&kept.turns))?))
}

/// `POST /v1/conversations/{conversation_id}/items`. Carried out again under its idempotency key it adds
/// nothing more.
pub(crate) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    id: PathId,
    payload: Payload,
) -> Result<Response, Error> {
    let id = read_id(check_id(id))?;
    let fields = parameters::fields(read_json(payload, &edge.settings).await?)?;
    let items = fields.get("items").ok_or_else(|| Problem::missing("items"))?;
    let held = hold(&edge, asking.caller.id(), &id).await?;
    let before = held.turns().last().map(|turn| turn.messages.as_slice()).unwrap_or_default();
    let turn = added_items::read(Some(items), before, asking.turn_id().unwrap_or_else(new_owner))?;
    let added = list_object(of_turns(std::slice::from_ref(&turn)), false);
    // Thoughts of another model are all that may be left out.
    match turn.messages.is_empty() {
        true => held.release().await,
        false => held.append(turn).await.map_err(refused)?,
    }
    Ok(answer::json(StatusCode::OK, &added))
}

/// Answers `GET /v1/conversations/{conversation_id}/items/{item_id}` with the item.
pub(crate) async fn read(State(edge): State<Shared>, caller: Caller, ids: Ids) -> Result<Response, Error> {
    let (id, item_id) = read_ids(ids)?;
    let kept = find(&edge, caller.id(), &id).await?;
    let item = of_turns(&kept.turns).find(|item| item.id == item_id);
    let item = item.ok_or_else(|| Problem::unknown_conversation_item(&item_id))?;
    Ok(answer::json(StatusCode::OK, &item.shown))
}

/// Answers `DELETE /v1/conversations/{conversation_id}/items/{item_id}` with the conversation.
pub(crate) async fn delete(State(edge): State<Shared>, caller: Caller, ids: Ids) -> Result<Response, Error> {
    let (id, item_id) = read_ids(ids)?;
    let held = hold(&edge, caller.id(), &id).await?;
    let Some(item) = of_turns(held.turns()).find(|item| item.id == item_id) else {
        held.release().await;
        return Err(Problem::unknown_conversation_item(&item_id).into());
    };
    let turns = without(held.turns().to_vec(), &item);
    held.replace(&turns).await.map_err(refused)?;
    show(&edge, caller.id(), &id).await
}

/// The ids of a conversation and of an item in it, as a path has them.
type Ids = Result<Path<(String, String)>, PathRejection>;

fn read_ids(ids: Ids) -> Result<(String, String), Problem> {
    let (id, item_id) = ids.map(|Path(ids)| ids).unwrap_or_default();
    let id = read_id(Some(id))?;
    if may_be_id(&item_id) { Ok((id, item_id)) } else { Err(Problem::unknown_conversation_item(&item_id)) }
}
