//! `POST /agent/invoke`: `{input, options?}` in, `{result}` out.

use std::sync::Arc;

use agent_core::policy::Ask;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use super::error::Error;
use super::input::{InvokeRequest, read_request};
use crate::answer;
use crate::body::Payload;
use crate::dependencies::{RouteState, VariantA};
use crate::json;
use crate::middleware::request_id::RequestId;
use crate::result_json::ResultBody;

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn invoke_agent(
    State(edge): State<Arc<RouteState<VariantA>>>,
    request_id: RequestId,
    payload: Payload,
) -> Result<Response, Error> {
    let body = payload.read(&edge.settings).await?;
    let InvokeRequest { input, options } = read_request(json::parse(&body)?)?;
    let ask = Ask { options, ..Ask::new(request_id.to_string(), input) };
    let answer = edge.variant.invoke.invoke(ask).await?;
    Ok(answer::json(StatusCode::OK, &Success { result: ResultBody::from(&*answer.result) }))
}

#[derive(Serialize)]
struct Success<'a> {
    result: ResultBody<'a>,
}
