//! `POST /v1/responses`: what the agent said and called as the items of a response, at once or as they come to be.

use agent_core::layers::RateCheck;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::super::auth::Caller;
use super::super::error::Error;
use super::super::schema::read_json;
use super::super::state::Shared;
use super::head::Head;
use super::response::{Frame, ResponseEvents};
use super::run::{self, Request};
use super::{documented, request_schema, responses_request, stream};
use crate::answer;
use crate::body::Payload;
use crate::middleware::request_id::RequestId;
use crate::openapi::{Operation, tags};

pub(super) fn describe() -> Operation {
    Operation::new("createResponse", tags::OPENAI, "Run the agent as OpenAI's responses do")
        .about(
            "The agent is the model `agent`. The tools that it calls are items of the type `mcp_call`. With `stream` the answer is \
             OpenAI's stream of typed events. Nothing is kept: send the conversation with `input`.",
        )
        .request_id()
        .body(request_schema::response())
        .answers_object("The response, as OpenAI describes it")
        .streams("Typed events, from `response.created` to `response.completed`, `.incomplete` or `.failed`")
        .refuses(documented::asking())
}

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn create(
    State(edge): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    (headers, rate_check): (HeaderMap, Option<Extension<RateCheck>>),
    payload: Payload,
) -> Result<Response, Error> {
    let request = responses_request::read(read_json(payload, &edge.settings).await?)?;
    let (asked, options) = (request.asked, request.options);
    run::check_functions(&edge.variant, &caller, &options.functions)?;
    let ask = run::ask(Request { asked, options, request_id: &request_id, caller: &caller, rate_check });
    let frame = Frame::new(&Head::new(&ask.run_id), &ask.options, request.echo);
    if request.stream {
        return stream::begin(&edge, &headers, ask, ResponseEvents::new(frame)).await;
    }
    let answer = edge.variant.invoke.invoke(ask).await?;
    Ok(answer::json(StatusCode::OK, &frame.of(&answer.result)))
}
