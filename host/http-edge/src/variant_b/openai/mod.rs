//! The agent for clients of OpenAI, under `/v1/`: an agent is a model, `agent`. Same tokens, same windows,
//! same cache as under `/api/`; errors in OpenAI's form.
//!
//! - `models`, `chat`, `responses`: the routes.
//! - `parameters`: what of a request is honoured, refused and not looked at. `chat_request`,
//!   `responses_request`: a request read, put together by `conversation` out of `content` and `images`, with
//!   the client's `functions` and
//!   the `allowed_tools`; `rules`: what the replies have to keep to.
//! - `place`: what a response goes on from, `references`: items of responses that are named by their ids.
//!   `kept`: keeping it; `responses_kept` reads and forgets one, `input_items` lists what it was made from.
//! - `conversations`, `conversation_items`: kept conversations, with their `metadata`. `turn_items`: what was
//!   said in one as items, `item_pages`: pages of them, `added_items`: those that a client adds.
//! - `compact`: a conversation in fewer words, which `compaction` stands for.
//! - `paused`: a run that waits, as a response with `approvals`; `go_on`: what follows from their answers.
//!   `continued`: the conversation that is named beside one. `waiting`: the sentence where there are none.
//! - `background`: a response whose work is a job; `background_cancel` cancels one.
//!   `current_response`: a kept response as it stands.
//! - `completion`: a chat completion. `stream`: a run as a stream, written by `chat_chunks` or by `response`,
//!   whose output `items` makes. `sent_text` knows which words were sent.
//! - `socket`: responses over a WebSocket, of which `socket_session` is one. `last_response`: what the next
//!   one may go on from without a store.
//! - `ui_chat`: chats of the Vercel AI SDK, read by `ui_request` and written by `ui_chunks`.
//! - `documented`, `request_schema`, `response_schema`, `item_schema`: for the document. What is wrong with a
//!   request, and the form of errors, are in `error/openai_problem.rs`.
//!
//! host/docs/api/openai.md says what they can rely on.

mod added_items;
mod allowed_tools;
mod approvals;
mod background;
mod background_cancel;
mod chat;
mod chat_chunks;
mod chat_request;
mod compact;
mod compaction;
mod completion;
mod content;
mod continued;
mod conversation;
mod conversation_items;
mod conversations;
mod current_response;
mod documented;
mod functions;
mod go_on;
mod head;
mod images;
mod input_items;
mod item_pages;
mod item_schema;
mod items;
mod kept;
mod last_response;
mod metadata;
mod models;
mod parameters;
mod paused;
mod place;
mod references;
mod request_schema;
mod response;
mod response_schema;
mod responses;
mod responses_kept;
mod responses_request;
mod rules;
mod sent_text;
mod socket;
mod socket_session;
mod stream;
mod turn_items;
mod ui_chat;
mod ui_chunks;
mod ui_request;
mod waiting;
mod whole;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};

use super::error::{self, Error, Problem};
use super::state::Shared;
use super::{api_stack, rate_limit};
use crate::middleware::refusals::Rules;
use crate::openapi::{Described, Operation, Routes};
use crate::stack;
use documented::in_form;

/// Everything under `/v1/`, to be nested there.
pub(crate) fn api(state: &Shared, rules: Rules) -> (Router, Vec<Described>) {
    let (asked, mut described) = Routes::new()
        .post("/chat/completions", chat::create, chat::describe)
        .post("/responses", responses::create, responses::describe)
        .post("/responses/compact", compact::create, compact::describe)
        .post("/chat", ui_chat::create, ui_chat::describe)
        .split();
    let (listed, of_listed) = Routes::new()
        .get("/models", models::list, models::describe_list)
        .get("/models/{model}", models::read, models::describe_one)
        .get("/responses", socket::open, socket::describe)
        .get("/responses/{response_id}", responses_kept::read, responses_kept::describe_read)
        .post("/responses/{response_id}/cancel", background_cancel::cancel, background_cancel::describe)
        .delete("/responses/{response_id}", responses_kept::delete, responses_kept::describe_delete)
        .get("/responses/{response_id}/input_items", input_items::list, input_items::describe)
        .split();
    let (of_conversations, of_conversations_described) = conversation_routes().split();
    described.extend(of_listed);
    described.extend(of_conversations_described);
    // The two fallbacks come after the authentication, so that they answer whoever asks.
    let routes = api_stack::authenticate_beside(asked, state, error::render_openai)
        .merge(api_stack::authenticate(listed.merge(of_conversations), state, error::render_openai))
        .fallback(answer_unknown_path)
        .method_not_allowed_fallback(answer_wrong_method);
    let router = api_stack::surround(routes, state, rules, error::render_openai);
    (router.with_state(state.clone()), described.into_iter().map(describe).collect())
}

fn conversation_routes() -> Routes<Shared> {
    let (one, items, item) = (
        "/conversations/{conversation_id}",
        "/conversations/{conversation_id}/items",
        "/conversations/{conversation_id}/items/{item_id}",
    );
    Routes::new()
        .post("/conversations", conversations::create, conversations::describe_create)
        .get(one, conversations::read, conversations::describe_read)
        .post(one, conversations::update, conversations::describe_update)
        .delete(one, conversations::delete, conversations::describe_delete)
        .get(items, conversation_items::list, conversation_items::describe_list)
        .post(items, conversation_items::create, conversation_items::describe_create)
        .get(item, conversation_items::read, conversation_items::describe_read)
        .delete(item, conversation_items::delete, conversation_items::describe_delete)
}

/// What is said of every route in it: what `api_stack` says of its own, with errors in another form.
fn describe(route: Described) -> Described {
    let is_post = route.is_post();
    route.map(move |operation: Operation| {
        let keys = super::documented::keys().map(in_form);
        let operation = if is_post { operation.once(keys) } else { operation };
        operation
            .refuses(super::documented::limits().map(in_form))
            .headers(&rate_limit::OF_USERS)
            .wants_token(&[])
            .refuses(documented::tokens())
            .refuses(stack::documented().map(in_form))
            .headers(&rate_limit::OF_ADDRESSES)
    })
}

async fn answer_unknown_path() -> Error {
    Problem::unknown_path().into()
}

/// The router adds `Allow`, which is also all that `OPTIONS` asks for.
async fn answer_wrong_method(method: Method) -> Response {
    match method {
        Method::OPTIONS => StatusCode::OK.into_response(),
        _ => Error::from(Problem::wrong_method()).into_response(),
    }
}
