//! `POST /api/agent`: `{query, options?}` in, the agent's result out, or a stream of events for whoever accepts one.

use agent_core::conversations::InConversation;
use agent_core::layers::{Ask, InvokeError, JsonAnswer, RateCheck};
use agent_core::words::Options;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::agent_response::{Success, from_cache};
use super::auth::Caller;
use super::error::Error;
use super::state::Shared;
use super::{documented, events, request_schema, schema};
use crate::answer;
use crate::body::Payload;
use crate::dependencies::VariantB;
use crate::middleware::idempotency::OnceId;
use crate::middleware::request_id::RequestId;
use crate::openapi::{Operation, tags};
use crate::server_sent_events::accepts_events;

pub(super) fn describe() -> Operation {
    Operation::new("askAgent", tags::AGENT, "Run the agent and wait for its result")
        .about(
            "The run stops when the client goes away, unless it is streamed (`Accept: text/event-stream`). Equal questions \
             share one run and its result for an hour, unless `RESULT_CACHE` is `off`.",
        )
        .request_id()
        .body(request_schema::agent_request())
        .answers::<Success<'static>>(StatusCode::OK, "The result")
        .begins_stream()
        .refuses(documented::bodies().chain(documented::runs()))
        .refuses(documented::rows([Error::TooManyStreams]).chain(documented::conversations()))
}

/// The handler may be dropped at any await when the client goes away; the run stops with it, unless it is streamed.
pub(super) async fn invoke_agent(
    State(edge): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    (headers, rate_check, once): (HeaderMap, Option<Extension<RateCheck>>, Option<Extension<OnceId>>),
    payload: Payload,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &edge.settings).await?;
    let request = schema::read_agent_request(body)?;
    let ask = ask_of(&caller, &request_id, request.query, request.options);
    let conversation = request.conversation_id.map(|id| InConversation {
        id,
        // Carried out again under its key, perhaps by another process, the request is the same turn.
        turn_id: once.map(|Extension(OnceId(id))| id.to_string()),
        seen: None,
    });
    let ask = Ask { conversation, rate_check: rate_check.map(|Extension(check)| check), ..ask };
    if let Some(streams) = edge.variant.streams.as_ref().filter(|_| accepts_events(&headers)) {
        return events::stream(&edge, streams, &headers, ask).await;
    }
    Ok(show(&edge.variant.invoke.invoke_for_json(ask).await?))
}

/// Runs the agent on behalf of that user.
pub(super) async fn ask(
    variant: &VariantB,
    caller: &Caller,
    request_id: &RequestId,
    query: String,
    options: Options,
) -> Result<JsonAnswer, InvokeError> {
    variant.invoke.invoke_for_json(ask_of(caller, request_id, query, options)).await
}

fn ask_of(caller: &Caller, request_id: &RequestId, query: String, options: Options) -> Ask {
    Ask { principal: caller.principal(), options, ..Ask::new(request_id.to_string(), query) }
}

/// The body is the agent's result itself, with `cached` beside its fields when results are kept
/// (host/docs/interface/endpoints.md#answer-of-variant-b).
pub(super) fn show(answer: &JsonAnswer) -> Response {
    match answer {
        JsonAnswer::Parsed(answer) => answer::json(StatusCode::OK, &Success::from(answer)),
        JsonAnswer::Written(result) => answer::json_bytes(StatusCode::OK, from_cache(result)),
    }
}
