//! `POST /api/agent`: `{query, options?}` in, the agent's result out.

use agent_core::policy::{Answer, Ask, InvokeError};
use agent_core::words::Options;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use super::auth::Caller;
use super::error::Error;
use super::schema;
use super::state::Shared;
use crate::answer;
use crate::body::Payload;
use crate::dependencies::VariantB;
use crate::middleware::request_id::RequestId;
use crate::result_json::ResultBody;

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn invoke_agent(
    State(edge): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    payload: Payload,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &edge.settings).await?;
    let request = schema::read_agent_request(body)?;
    let answer = ask(&edge.variant, &caller, &request_id, request.query, request.options).await?;
    Ok(show(&answer))
}

/// Runs the agent on behalf of that user.
pub(super) async fn ask(
    variant: &VariantB,
    caller: &Caller,
    request_id: &RequestId,
    query: String,
    options: Options,
) -> Result<Answer, InvokeError> {
    let ask = Ask { principal: caller.principal(), options, ..Ask::new(request_id.to_string(), query) };
    variant.invoke.invoke(ask).await
}

/// "The response body is the agent result object itself", with `cached` beside its fields when results are
/// kept (interface, "Invocation response (Variant B)").
pub(super) fn show(answer: &Answer) -> Response {
    #[derive(Serialize)]
    struct Success<'a> {
        #[serde(flatten)]
        result: ResultBody<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cached: Option<bool>,
    }
    answer::json(
        StatusCode::OK,
        &Success { result: ResultBody::from(&*answer.result), cached: answer.cached },
    )
}
