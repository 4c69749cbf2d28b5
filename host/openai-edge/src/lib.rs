//! The agent for clients of OpenAI, under `/v1/`: an agent is a model, `agent`. Same tokens, same windows,
//! same cache as under `/api/`; errors in OpenAI's form.
//!
//! - `models`, `chat/`, `responses/`, `conversations/`, `socket/`, `ui_chat/`: the routes, a folder for each
//!   dialect with its request read and its answer written. `ui_chat`: chats of the Vercel AI SDK.
//! - `input/`: what requests of all of them say. `run/`: a run for a client, whatever protocol it speaks.
//! - `items/`: what a run, or a kept conversation, is as items of responses.
//! - `documented`: for the document. What is wrong with a request, and the form of errors, are in
//!   `variant_b/error/openai_problem.rs` of the crate `http-edge`.
//!
//! Arrows run down this list: a dialect knows `items`, `run` and `input`, none of them knows a dialect.
//!
//! host/docs/api/openai.md says what they can rely on.

mod chat;
mod conversations;
mod documented;
mod head;
mod input;
mod items;
mod models;
mod responses;
mod run;
mod socket;
mod ui_chat;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};

use documented::in_form;
use http_edge::Dialect;
use http_edge::middleware::refusals::Rules;
use http_edge::openapi::{Described, Operation, Routes};
use http_edge::stack;
use http_edge::variant_b::error::{self, Error, Problem};
use http_edge::variant_b::state::Shared;
use http_edge::variant_b::{api_stack, rate_limit};

/// What the edge is given to answer clients of OpenAI.
pub const DIALECT: Dialect = Dialect { prefix: "/v1/", routes: api };

fn api(state: &Shared, rules: Rules) -> (Router, Vec<Described>) {
    let (asked, mut described) = Routes::new()
        .post("/chat/completions", chat::create, chat::describe)
        .post("/responses", responses::create, responses::describe)
        .post("/responses/compact", responses::compact::create, responses::compact::describe)
        .post("/chat", ui_chat::create, ui_chat::describe)
        .split();
    let (listed, of_listed) = Routes::new()
        .get("/models", models::list, models::describe_list)
        .get("/models/{model}", models::read, models::describe_one)
        .get("/responses", socket::open, socket::describe)
        .get("/responses/{response_id}", responses::stored::read, responses::stored::describe_read)
        .post(
            "/responses/{response_id}/cancel",
            responses::background_cancel::cancel,
            responses::background_cancel::describe,
        )
        .delete("/responses/{response_id}", responses::stored::delete, responses::stored::describe_delete)
        .get(
            "/responses/{response_id}/input_items",
            responses::input_items::list,
            responses::input_items::describe,
        )
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
        .get(items, conversations::items::list, conversations::items::describe_list)
        .post(items, conversations::items::create, conversations::items::describe_create)
        .get(item, conversations::items::read, conversations::items::describe_read)
        .delete(item, conversations::items::delete, conversations::items::describe_delete)
}

/// What is said of every route in it: what `api_stack` says of its own, with errors in another form.
fn describe(route: Described) -> Described {
    let is_post = route.is_post();
    route.map(move |operation: Operation| {
        let keys = http_edge::variant_b::documented::keys().map(in_form);
        let operation = if is_post { operation.once(keys) } else { operation };
        operation
            .refuses(http_edge::variant_b::documented::limits().map(in_form))
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
