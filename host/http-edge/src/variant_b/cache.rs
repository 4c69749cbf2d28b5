//! `DELETE /api/agent/cache?pattern=agent:*`: forgets results (host/docs/interface/endpoints.md#variant-b).
//! For administrators.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::documented;
use super::error::Error;
use super::parameters::CachePattern;
use super::state::Shared;
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::request::read_query;

pub(super) fn describe() -> Operation {
    Operation::new("invalidateCache", tags::CACHE, "Forget kept results")
        .query::<CachePattern>()
        .answers::<Invalidated>(StatusCode::OK, "How many were forgotten")
        .wants_token(&["admin"])
        .refuses([Error::NotAdmin])
        .refuses(documented::stores())
}

/// What an invalidation came to.
#[derive(Serialize, ToSchema)]
struct Invalidated {
    /// Results that are forgotten.
    #[schema(example = 3)]
    deleted: u64,
}

pub(super) async fn invalidate(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    if !caller.is_admin() {
        return Err(Error::NotAdmin);
    }
    let CachePattern { pattern } = read_query(query.as_deref())?;
    let deleted = match &edge.variant.cache {
        Some(cache) => cache.delete_matching(&pattern).await?,
        None => 0,
    };
    Ok(answer::json(StatusCode::OK, &Invalidated { deleted }))
}
