//! `POST /v1/responses`: what the agent said and called as the items of a response, at once or as they come
//! to be.

mod background;
pub(super) mod background_cancel;
pub(super) mod compact;
mod current_response;
pub(super) mod go_on;
pub(super) mod input_items;
pub(super) mod item_schema;
mod references;
pub(super) mod request;
pub(super) mod request_schema;
mod response;
pub(super) mod response_schema;
pub(super) mod stored;
mod whole;

use agent_core::words::{JobData, Turn};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use run_service::layers::InvokeError;

use super::documented;
use super::head::Head;
use super::input::parameters::Fields;
use super::input::{approvals, functions, parameters, rules};
use super::run::conversation_state::Place;
use super::run::kept::{Keep, SaidBefore};
use super::run::last_response::OfConnection;
use super::run::{stream, waiting};
use go_on::GoOn;
use http_edge::answer;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::documented as of_variant;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;
use response::{Frame, ResponseEvents};
use whole::Whole;

pub(super) fn describe() -> Operation {
    documented::asking_model(Operation::new("createResponse", tags::OPENAI, "Run the agent as OpenAI's responses do"))
        .about(
            "The agent is the model `agent`. The tools that it calls are items of the type `mcp_call`. A call that waits for an \
             approval is an `mcp_approval_request`, which the next request answers. With `stream` the answer is OpenAI's stream \
             of typed events. With `previous_response_id` it goes on from a response that was kept, with `conversation` it is \
             part of a kept conversation. With `background` it is queued, and answered as that.",
        )
        .request_id()
        .json_body(request_schema::RESPONSE, request_schema::response(), true)
        .defines(request_schema::items())
        .defines(response_schema::all())
        .answers_named(response_schema::RESPONSE, "The response, as OpenAI describes it")
        .streams(
            "Typed events (`OpenAiResponseEvent`), from `response.created` to `response.completed`, `.incomplete` or `.failed`",
        )
        .refuses([Problem::unknown_item("msg_1_0"), Problem::unknown_approval("mcpr_1"), go_on::already_decided()])
        .refuses(of_variant::conversations().map(documented::in_form))
}

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let fields = parameters::fields(read_json(payload, &edge.settings).await?)?;
    respond(&edge, &asking, fields, None).await
}

/// Answers a request that came by itself, or over a connection.
pub(super) async fn respond(
    edge: &Shared,
    asking: &Asking,
    mut fields: Fields,
    connection: Option<OfConnection>,
) -> Result<Response, Error> {
    let place = Place { connection, ..Place::read(&fields)? };
    let is_background = background::read(&fields, &place)?;
    references::resolve(&mut fields, &edge.variant, &asking.caller).await?;
    let answers = approvals::answers(&fields, place.previous.is_some() || place.conversation.is_some())?;
    if !answers.is_empty() {
        if is_background {
            let why = "An approval is answered in the foreground: leave it out, or send false.";
            return Err(Problem::unsupported_value("background", why).into());
        }
        return GoOn { edge, asking, place: &place, answers }.respond(fields).await;
    }
    let mut turns = current_response::turns_before(&place, &edge.variant, &asking.caller).await?;
    // Carried out again under its key, the request is the same turn.
    let turn_id = asking.turn_id();
    let is_own = |turn: &Turn| turn_id.as_deref().is_some_and(|id| is_named(turn, id, is_background));
    if let Some(own) = turns.iter().position(is_own) {
        turns.truncate(own);
    }
    let request = request::read(fields, &place, &turns)?;
    functions::check(&edge.variant, &asking.caller, &request.options).await?;
    rules::check(&request.options.rules, "text.format.schema").await?;
    if is_background {
        return background::begin(edge, asking, &place, turns, request).await;
    }
    let ask = asking.ask(request.input, request.options);
    let mut frame = Frame::new(&Head::new(&ask.run_id), &ask.options, request.echo);
    let own = ask.options.history.clone();
    let ask = place.put_in_front(ask, &turns, turn_id);
    let keep = Keep::of(edge, asking, &place, SaidBefore { turns, own }, frame.response_id());
    let mut keep = Some(keep);
    if request.stream {
        return stream::begin(edge, &asking.headers, ask, keep, ResponseEvents::new(frame)).await;
    }
    let run_id = ask.run_id.clone();
    let outcome = edge.variant.invoke.invoke(ask).await;
    let waits = matches!(outcome, Err(InvokeError::Waits { .. }));
    if let Err(InvokeError::Waits { job_id }) = &outcome {
        let by = asking.caller.principal();
        if let Some(response) = Whole::of_waiting(edge, &by, job_id, &frame, &mut keep).await {
            return Ok(response);
        }
    }
    let answer = waiting::or_said(edge, &run_id, outcome).await?;
    frame.ended_as(&answer);
    let mut shown = frame.of(&answer.result);
    // A run that waits for others has not come to its end: nothing is gone on from.
    if let Some(keep) = &keep
        && (waits || !keep.keep(&answer.result, &shown).await)
    {
        frame.not_kept();
        shown = frame.of(&answer.result);
    }
    Ok(answer::json(StatusCode::OK, &shown))
}

/// Whether the turn has the name that a key gives it. The turn of a job has the name of its run.
fn is_named(turn: &Turn, id: &str, is_of_job: bool) -> bool {
    let name = if is_of_job { JobData::id_of_known_run(&turn.id) } else { Some(turn.id.as_str()) };
    name == Some(id)
}
