//! `POST /v1/responses/compact`: a conversation in fewer words, to go on from.
//!
//! A run without tools writes a summary. The answer has the user's messages as they were and the summary as
//! an item, all of which the client sends as the beginning of its next `input`. Nothing is kept.

use agent_core::words::{AgentResult, Message, Options, StopReason, Turn};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use run_service::conversations::in_front;
use serde_json::{Value, json};

use super::super::documented;
use super::super::head::Head;
use super::super::input::conversation::Conversation;
use super::super::input::{compaction, content, parameters};
use super::super::items::turn_items;
use super::super::run::conversation_state::{PREVIOUS, Place};
use super::super::run::waiting;
use super::current_response::turns_before;
use super::{item_schema, references, request, request_schema, response, response_schema};
use http_edge::answer;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;

const REQUEST: &str = "OpenAiCompactRequest";
const COMPACTED: &str = "OpenAiCompactedResponse";

/// What the model is asked.
const WISH: &str = "Summarize the conversation so far for a model that will go on with it and sees nothing else \
    of it: what the user wants, what was decided and found out, with all names, numbers and results that are \
    still needed, and what is open. Write the summary only.";

pub(crate) fn describe() -> Operation {
    let operation = Operation::new("compactResponse", tags::OPENAI, "Put a conversation in fewer words");
    item_schema::define(documented::asking_model(operation))
        .about(
            "A run without tools writes a summary, which counts like any other. `output` is the beginning of the next `input`, \
             as it is. Nothing is kept.",
        )
        .request_id()
        .json_body(REQUEST, request_schema::compact(), true)
        .defines(request_schema::items())
        .defines([(COMPACTED, compacted())])
        .answers_named(COMPACTED, "The user's messages, and the summary as an item")
        .refuses([Problem::unknown_previous_response("resp_1"), Problem::unfinished_summary("max_tokens")])
}

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(crate) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let mut fields = parameters::fields(read_json(payload, &edge.settings).await?)?;
    parameters::check_model(&fields)?;
    if fields.get("conversation").is_some_and(|conversation| !conversation.is_null()) {
        let why = "Conversations are not read here: send what is to be summarized as `input`, or `previous_response_id`.";
        return Err(Problem::unsupported_value("conversation", why).into());
    }
    let previous = parameters::read(&fields, &PREVIOUS)?;
    references::resolve(&mut fields, &edge.variant, &asking.caller).await?;
    let place = Place { previous, ..Place::default() };
    let turns = turns_before(&place, &edge.variant, &asking.caller).await?;
    let history = in_front(&turns, &read(&fields, &turns)?);
    let is_said = |it: &&Message| matches!(it, Message::User { .. }) && !compaction::is_summary(it);
    let users: Vec<_> = history.iter().filter(is_said).cloned().collect();
    let options = Options { history, tools: Some(vec![]), ..Options::default() };
    let ask = asking.ask(WISH.to_owned(), options);
    let (head, run_id) = (Head::new(&ask.run_id), ask.run_id.clone());
    let answer = waiting::or_said(&edge, &run_id, edge.variant.invoke.invoke(ask).await).await?;
    Ok(answer::json(StatusCode::OK, &compact(&head, users, &answer.result)?))
}

/// What the client says, whose calls need no answers any more.
fn read(fields: &parameters::Fields, turns: &[Turn]) -> Result<Vec<Message>, Problem> {
    let before = turns.last().map(|turn| turn.messages.as_slice()).unwrap_or_default();
    let mut said = Conversation::after(before);
    said.system(content::text_if_any(fields.get("instructions"), "instructions")?);
    if fields.contains_key("input") || turns.is_empty() {
        request::read_input(fields, &mut said)?;
    }
    said.into_messages("input")
}

fn compact(head: &Head, users: Vec<Message>, result: &AgentResult) -> Result<Value, Problem> {
    // What a limit has cut off would be lost without a word.
    if result.stop_reason != StopReason::Completed {
        return Err(Problem::unfinished_summary(result.stop_reason.as_str()));
    }
    let turn = Turn { id: result.id.clone(), messages: users, ..Turn::default() };
    let turns = [turn];
    let said = turn_items::of_turns(&turns).map(|item| item.shown);
    let output: Vec<_> = said.chain([compaction::item(&head.id, &result.output)]).collect();
    Ok(json!({
        "id": format!("resp_{}", head.id), "object": "response.compaction", "created_at": head.created,
        "output": output, "usage": response::usage_of(result.usage),
    }))
}

fn compacted() -> Value {
    use http_edge::openapi::schema_parts::{fields, list, object, of, one_of, reference};
    let item = json!({
        "description": "An item.", "anyOf": [reference(item_schema::ITEM), reference(request_schema::COMPACTION)],
    });
    let id = of("string", "Names the answer, which is not kept.", "resp_01a204ec6206715fbb305322b42db99d");
    object(
        "A conversation in fewer words.",
        fields([
            ("id", id),
            ("object", one_of(&["response.compaction"], "Always the same.")),
            ("created_at", of("integer", "Seconds since 1970.", 1_700_000_000)),
            ("output", list("The user's messages, then the summary.", item)),
            ("usage", response_schema::usage()),
        ]),
    )
}
