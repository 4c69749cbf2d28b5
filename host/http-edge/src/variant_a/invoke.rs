//! `POST /agent/invoke`: `{input, options?}` in, `{result}` out, or a stream of events for whoever accepts
//! one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use run_service::held_lease::LeaseWatch;
use run_service::layers::Ask;

use super::error::Error;
use super::events;
use super::input::{InvokeRequest, read_request};
use super::invoke_response::Success;
use crate::answer;
use crate::body::Payload;
use crate::dependencies::{RouteState, VariantA};
use crate::json;
use crate::middleware::request_id::RequestId;
use crate::openapi::{Operation, tags};
use crate::request::output_schema;
use crate::server_sent_events::accepts_events;

pub(super) fn describe() -> Operation {
    Operation::new("invokeAgent", tags::AGENT, "Run the agent and wait for its result")
        .about(
            "The run stops when the client goes away, unless it is streamed (`Accept: text/event-stream`).",
        )
        .request_id()
        .body::<InvokeRequest>()
        .answers::<Success<'static>>(StatusCode::OK, "The result")
        .begins_stream()
        .refuses(Error::documented())
        .once(Error::of_keys())
}

/// The handler may be dropped at any await when the client goes away; the run stops with it, unless it is
/// streamed.
pub(super) async fn invoke_agent(
    State(edge): State<Arc<RouteState<VariantA>>>,
    request_id: RequestId,
    headers: HeaderMap,
    lease: Option<Extension<LeaseWatch>>,
    payload: Payload,
) -> Result<Response, Error> {
    let body = payload.read(&edge.settings).await?;
    let InvokeRequest { input, options } = read_request(json::parse(&body)?)?;
    let mut ask = Ask::new(request_id.to_string(), input);
    ask.options = options.of_run();
    ask.acts_under(lease.map(|Extension(lease)| lease));
    output_schema::check(&ask.options.rules).await.map_err(Error::OutputSchema)?;
    if let Some(streams) = edge.variant.streams.as_ref().filter(|_| accepts_events(&headers)) {
        return events::stream(streams, &headers, ask).await;
    }
    let answer = edge.variant.invoke.invoke(ask).await?;
    Ok(answer::json(StatusCode::OK, &Success::from(&*answer.result)))
}
