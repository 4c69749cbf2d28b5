//! `DELETE /api/agent/cache?pattern=agent:*`: forgets results (host/docs/interface/endpoints.md#variant-b).
//! For administrators.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::error::Error;
use super::state::Shared;
use super::validation_issue::Issue;
use super::{documented, parameters};
use crate::answer;
use crate::openapi::{Operation, tags};

pub(super) fn describe() -> Operation {
    Operation::new("invalidateCache", tags::CACHE, "Forget kept results")
        .parameter(parameters::describe_pattern())
        .answers::<Invalidated>(StatusCode::OK, "How many were forgotten")
        .wants_token(&["admin"])
        .refuses(documented::parameters(Issue::required("string", &["pattern"])))
        .refuses(documented::rows([Error::NotAdmin]).chain(documented::stores()))
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
    let pattern = parameters::read_pattern(query.as_deref())?;
    let deleted = match &edge.variant.cache {
        Some(cache) => cache.delete_matching(&pattern).await?,
        None => 0,
    };
    Ok(answer::json(StatusCode::OK, &Invalidated { deleted }))
}
