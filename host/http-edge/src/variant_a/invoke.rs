//! `POST /agent/invoke`: `{input}` in, `{result}` out.

use std::sync::Arc;

use agent_core::policy::Ask;
use agent_core::words::AgentResult;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::error::Error;
use crate::answer;
use crate::body::Payload;
use crate::edge::{Served, VariantA};
use crate::json;
use crate::layers::RequestId;

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn invoke_agent(
    State(edge): State<Arc<Served<VariantA>>>,
    request_id: RequestId,
    payload: Payload,
) -> Result<Response, Error> {
    let body = payload.read(&edge.settings).await?;
    let input = take_input(json::parse(&body)?)?;
    let answer = edge.variant.invoke.invoke(Ask::new(request_id.to_string(), input)).await?;
    Ok(answer::json(StatusCode::OK, &Success { result: &answer.result }))
}

#[derive(Serialize)]
struct Success<'a> {
    result: &'a AgentResult,
}

/// What is wrong with a request that is JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error("`input` is missing")]
    Missing,
    #[error("`input` is not a string")]
    NotAString,
    #[error("`input` is empty")]
    Empty,
}

/// The caller's text as it was sent: blanks count as text, and what they mean is the model's to decide.
fn take_input(body: Value) -> Result<String, InputError> {
    let Value::Object(mut fields) = body else { return Err(InputError::NotAnObject) };
    match fields.remove("input") {
        None => Err(InputError::Missing),
        Some(Value::String(input)) if input.is_empty() => Err(InputError::Empty),
        Some(Value::String(input)) => Ok(input),
        Some(_) => Err(InputError::NotAString),
    }
}
