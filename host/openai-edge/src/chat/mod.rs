//! `POST /v1/chat/completions`: the agent's last words as a completion, or all its words as they are written.

mod chunks;
pub(super) mod completion;
mod request;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::documented;
use super::head::Head;
use super::input::{functions, rules};
use super::responses::request_schema;
use super::run::{stream, waiting};
use chunks::ChatChunks;
use completion::ChatCompletion;
use http_edge::answer;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::error::Error;
use http_edge::variant_b::state::Shared;

pub(super) fn describe() -> Operation {
    let summary = "Run the agent as OpenAI's chat completions do";
    documented::asking_model(Operation::new("createChatCompletion", tags::OPENAI, summary))
        .about(
            "The agent is the model `agent`: it calls its own tools, and answers. With `stream` the answer is OpenAI's stream \
             of chunks. Parameters that say how a model chooses its words are not looked at; what the agent cannot do is \
             refused.",
        )
        .request_id()
        .json_body(request_schema::CHAT, request_schema::chat(), true)
        .answers::<ChatCompletion<'static>>(StatusCode::OK, "The completion")
        .streams("Chunks, and `[DONE]`")
}

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let request = request::read(read_json(payload, &edge.settings).await?)?;
    functions::check(&edge.variant, &asking.caller, &request.options).await?;
    rules::check(&request.options.rules, "response_format").await?;
    let ask = asking.ask(request.input, request.options);
    let head = Head::new(&ask.run_id);
    let is_formatted = ask.options.rules.output.is_some();
    if request.stream {
        let chunks = ChatChunks::new(&head, request.include_usage, is_formatted);
        return stream::begin(&edge, &asking.headers, ask, None, chunks).await;
    }
    let run_id = ask.run_id.clone();
    let answer = waiting::or_said(&edge, &run_id, edge.variant.invoke.invoke(ask).await).await?;
    Ok(answer::json(StatusCode::OK, &ChatCompletion::of(&head, &answer.result, is_formatted)))
}
