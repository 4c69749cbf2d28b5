//! `POST /api/serverless`: what a function of a cloud would do. `{query}` in, the agent's result out, and the
//! message of whatever goes wrong with the agent (host/docs/interface/endpoints.md#variant-b).

use std::time::Duration;

use agent_core::words::Options;
use axum::extract::State;
use axum::response::Response;
use run_service::layers::InvokeError;

use super::asking::Asking;
use super::bodies::QueryRequest;
use super::error::Error;
use super::state::Shared;
use super::{agent, bodies, documented};
use crate::body::Payload;
use crate::openapi::{Operation, tags};

pub(super) fn describe() -> Operation {
    let failed = Error::Serverless(InvokeError::Busy { waited: Duration::from_secs(5) });
    let operation =
        Operation::new("handleEvent", tags::AGENT, "Run the agent as a function of a cloud would")
            .about("Whatever goes wrong with the agent is a 500 with its message.")
            .request_id()
            .body::<QueryRequest>()
            .refuses(documented::bodies())
            .refuses([failed]);
    agent::answers(operation)
}

pub(super) async fn handle_event(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let QueryRequest { query, options: _ } = bodies::read(payload, &edge.settings).await?;
    let answer = edge.variant.invoke.invoke_for_json(asking.ask(query, Options::default())).await;
    Ok(agent::show(&answer.map_err(Error::Serverless)?))
}
