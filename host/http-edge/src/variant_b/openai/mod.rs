//! The agent for clients of OpenAI, under `/v1/`: an agent is a model, `agent`. Same tokens, same windows,
//! same cache as under `/api/`; errors in OpenAI's form.
//!
//! - `models`, `chat`, `responses`: the routes.
//! - `parameters`: what of a request is honoured, refused and not looked at. `chat_request`,
//!   `responses_request`: a request read, put together by `conversation` out of `content` and `images`, with
//!   the client's `functions`.
//! - `place`: what a response goes on from, `references`: items of responses that are named by their ids.
//!   `kept`: keeping it; `responses_kept` reads and forgets one.
//! - `background`: a response whose work is a job; `background_cancel` cancels one.
//!   `current_response`: a kept response as it stands.
//! - `completion`: a chat completion. `stream`: a run as a stream, written by `chat_chunks` or by `response`,
//!   whose output `items` makes. `sent_text` knows which words were sent.
//! - `documented`, `request_schema`, `response_schema`: for the document. What is wrong with a request, and
//!   the form of errors, are in `error/openai_problem.rs`.
//!
//! host/docs/api/openai.md says what they can rely on.

mod background;
mod background_cancel;
mod chat;
mod chat_chunks;
mod chat_request;
mod completion;
mod content;
mod conversation;
mod current_response;
mod documented;
mod functions;
mod head;
mod images;
mod items;
mod kept;
mod models;
mod parameters;
mod place;
mod references;
mod request_schema;
mod response;
mod response_schema;
mod responses;
mod responses_kept;
mod responses_request;
mod sent_text;
mod stream;
mod waiting;

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
        .post("/chat/completions", chat::create, chat::describe())
        .post("/responses", responses::create, responses::describe())
        .split();
    let (listed, of_listed) = Routes::new()
        .get("/models", models::list, models::describe_list())
        .get("/models/{model}", models::read, models::describe_one())
        .get("/responses/{response_id}", responses_kept::read, responses_kept::describe_read())
        .post("/responses/{response_id}/cancel", background_cancel::cancel, background_cancel::describe())
        .delete("/responses/{response_id}", responses_kept::delete, responses_kept::describe_delete())
        .split();
    described.extend(of_listed);
    // The two fallbacks come after the authentication, so that they answer whoever asks.
    let routes = api_stack::authenticate_beside(asked, state, error::render_openai)
        .merge(api_stack::authenticate(listed, state, error::render_openai))
        .fallback(answer_unknown_path)
        .method_not_allowed_fallback(answer_wrong_method);
    let router = api_stack::surround(routes, state, rules, error::render_openai);
    (router.with_state(state.clone()), described.into_iter().map(describe).collect())
}

/// What is said of every route in it: what `api_stack` says of its own, with errors in another form.
fn describe(route: Described) -> Described {
    let is_post = route.is_post();
    route.map(|operation: Operation| {
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
