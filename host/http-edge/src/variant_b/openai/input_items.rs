//! `GET /v1/responses/{response_id}/input_items`: what a kept response was made from.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::auth::Caller;
use super::super::conversations::unavailable;
use super::super::documented as of_variant;
use super::super::error::{Error, Problem};
use super::super::state::Shared;
use super::item_pages::ItemListing;
use super::responses_kept::{ID, read_id};
use super::{documented, item_schema, turn_items};
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::path_id::PathId;
use crate::request::read_query;

pub(super) fn describe() -> Operation {
    item_schema::define(Operation::new("listOpenAiInputItems", tags::OPENAI, "List what a kept response was made from"))
        .about(
            "Everything that was said before it and is kept with it, and what its request said. Instructions are not kept.",
        )
        .path(ID)
        .query::<ItemListing>()
        .answers_named(item_schema::LIST, "A page of items")
        .refuses([Problem::unknown_response("resp_1"), Problem::invalid("limit", "Number must be less than or equal to 100.")])
        .refuses(of_variant::stores().map(documented::in_form))
}

/// Answers `GET /v1/responses/{response_id}/input_items` with a page of items.
pub(super) async fn list(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    let listing: ItemListing = read_query(query.as_deref())?;
    let kept = edge.variant.conversations.response(caller.id(), &id).await.map_err(unavailable)?;
    let kept = kept.ok_or_else(|| Problem::unknown_response(&id))?;
    let page = listing.page(turn_items::asked(&kept.turns, &id))?;
    Ok(answer::json(StatusCode::OK, &page))
}
