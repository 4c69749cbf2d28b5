//! `POST /api/serverless`: what a function of a cloud would do. `{query}` in, the agent's result out, and the
//! message of whatever goes wrong with the agent (interface, Variant B, rule 5).

use agent_core::words::Options;
use axum::extract::State;
use axum::response::Response;

use super::auth::Caller;
use super::error::Error;
use super::state::Shared;
use super::{agent, schema};
use crate::body::Payload;
use crate::middleware::request_id::RequestId;

pub(super) async fn handle_event(
    State(edge): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    payload: Payload,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &edge.settings).await?;
    let query = schema::read_query(body)?;
    let answer = agent::ask(&edge.variant, &caller, &request_id, query, Options::default()).await;
    Ok(agent::show(&answer.map_err(Error::Serverless)?))
}
