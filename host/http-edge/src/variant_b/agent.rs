//! `POST /api/agent`: `{query, options?}` in, the agent's result out, or a stream of events for whoever
//! accepts one.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::LOCATION;
use run_service::conversations::InConversation;
use run_service::layers::JsonAnswer;

use super::agent_response::{Success, from_cache};
use super::asking::Asking;
use super::bodies::AgentRequest;
use super::error::Error;
use super::job_accepted::Accepted;
use super::state::Shared;
use super::{bodies, documented, events};
use crate::answer;
use crate::body::Payload;
use crate::openapi::{Operation, tags};
use crate::server_sent_events::accepts_events;

pub(super) fn describe() -> Operation {
    let operation = Operation::new("askAgent", tags::AGENT, "Run the agent and wait for its result")
        .about(
            "The run stops when the client goes away, unless it is streamed (`Accept: text/event-stream`). Equal \
             questions share one run and its result for an hour, unless `RESULT_CACHE` is `off`.",
        )
        .request_id()
        .body::<AgentRequest>()
        .begins_stream()
        .refuses(documented::bodies())
        .refuses(documented::runs())
        .refuses([Error::TooManyStreams])
        .refuses(documented::conversations());
    answers(operation)
}

/// What comes of a run for who waits for it.
pub(super) fn answers(operation: Operation) -> Operation {
    operation
        .answers::<Success<'static>>(StatusCode::OK, "The result")
        .answers::<Accepted<'static>>(
            StatusCode::ACCEPTED,
            "The run waits for somebody; a job goes on with it",
        )
        .header(StatusCode::ACCEPTED, &LOCATION)
}

/// The handler may be dropped at any await when the client goes away; the run stops with it, unless it is
/// streamed.
pub(super) async fn invoke_agent(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let AgentRequest { query, mut options } = bodies::read(payload, &edge.settings).await?;
    let conversation = options.conversation_id.take();
    let conversation = conversation.map(|id| InConversation { id, turn_id: asking.turn_id(), seen: None });
    let options = options.of_run();
    bodies::check_output_schema(&options).await?;
    let mut ask = asking.ask(query, options);
    ask.conversation = conversation;
    if let Some(streams) = edge.variant.streams.as_ref().filter(|_| accepts_events(&asking.headers)) {
        return events::stream(&edge, streams, &asking.headers, ask).await;
    }
    Ok(show(&edge.variant.invoke.invoke_for_json(ask).await?))
}

/// The body is the agent's result itself, with `cached` beside its fields when results are kept
/// (host/docs/interface/endpoints.md#answer-of-variant-b).
pub(super) fn show(answer: &JsonAnswer) -> Response {
    match answer {
        JsonAnswer::Parsed(answer) => answer::json(StatusCode::OK, &Success::from(answer)),
        JsonAnswer::Written(result) => answer::json_bytes(StatusCode::OK, from_cache(result)),
    }
}
