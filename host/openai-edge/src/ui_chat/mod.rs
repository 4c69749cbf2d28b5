//! `POST /v1/chat`: a chat of the Vercel AI SDK (`useChat` with `DefaultChatTransport`), answered with its UI
//! message stream.

mod chunks;
mod request;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderName, HeaderValue};

use super::documented;
use super::head::Head;
use super::input::parameters;
use super::responses::go_on::GoOn;
use super::run::conversation_state::Place;
use super::run::stream;
use chunks::UiChunks;
use http_edge::body::Payload;
use http_edge::openapi::{Operation, tags};
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::bodies::read_json;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;
use request::UiAnswers;

/// By which clients tell such a stream from others, and its version.
const PROTOCOL: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-vercel-ai-ui-message-stream"), HeaderValue::from_static("v1"));

pub(super) fn describe() -> Operation {
    let summary = "Run the agent for a chat of the Vercel AI SDK";
    documented::asking(Operation::new("streamChat", tags::OPENAI, summary))
        .about(
            "`useChat` with `DefaultChatTransport` sends the whole chat, and reads the answer as a UI message stream. The \
             agent's tools are parts of the type `dynamic-tool`; a call that waits asks for an approval, which the next request \
             answers.",
        )
        .request_id()
        .json_body("UiChatRequest", request::schema(), true)
        .refuses([Problem::missing("messages"), Problem::unknown_approval("mcpr_1")])
        .streams("Chunks of the UI message stream, version 1, and `[DONE]`")
}

/// The handler may be dropped at any await when the client goes away; the run stops with it.
pub(super) async fn create(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let fields = parameters::fields(read_json(payload, &edge.settings).await?)?;
    let UiAnswers { message_id, answers, hidden } = request::answers(&fields)?;
    let mut response = if answers.is_empty() {
        let request = request::read(&fields)?;
        let ask = asking.ask(request.input, request.options);
        let chunks = UiChunks::new(&Head::new(&ask.run_id));
        stream::begin(&edge, &asking.headers, ask, None, chunks).await?
    } else {
        let go_on = GoOn { edge: &edge, asking: &asking, place: &Place::default(), answers };
        go_on.stream(|shown| UiChunks::behind(message_id, shown, hidden)).await?
    };
    let (name, version) = PROTOCOL;
    response.headers_mut().insert(name, version);
    Ok(response)
}
