//! `GET /v1/responses/{response_id}/input_items`: what a kept response was made from.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::documented;
use super::super::items::pages::ItemListing;
use super::super::items::turn_items;
use super::item_schema;
use super::stored::{ID, read_id};
use http_edge::answer;
use http_edge::openapi::{Operation, tags};
use http_edge::request::path_id::PathId;
use http_edge::request::read_query;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::conversations::unavailable;
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

pub(crate) fn describe() -> Operation {
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
pub(crate) async fn list(
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
