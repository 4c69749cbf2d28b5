//! `DELETE /api/agent/cache?pattern=agent:*`: forgets results (interface, Variant B, rule 3). For
//! administrators.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use super::auth::Caller;
use super::error::Error;
use super::parameters;
use super::state::Shared;
use crate::answer;

#[derive(Serialize)]
struct Invalidated {
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
