//! Gives errors their bodies, in one place, which knows whether this is production.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{ALLOW, CONNECTION};
use serde_json::Value;

use super::answer::ErrorAnswer;
use super::{Error, openai_problem as problem, soon};
use crate::answer::{self as answers, Failure};

/// Gives errors their bodies: [`render`] and [`render_openai`].
pub type Render = fn(Response, bool) -> Response;

/// An error whose body [`render`] is still to write, in an answer's extensions.
#[derive(Debug, Clone)]
struct ErrorBody(Arc<Error>);

/// The answer with its error's body, if it is one's, and with the error beside it for the log. What others
/// have noted on the answer stays.
pub fn render(mut answer: Response, production: bool) -> Response {
    let Some(ErrorBody(error)) = answer.extensions_mut().remove() else { return answer };
    let mut rendered = error.answer(production).into_response();
    rendered.extensions_mut().extend(std::mem::take(answer.extensions_mut()));
    rendered.extensions_mut().insert(Failure::shared(error));
    rendered
}

/// An answer in OpenAI's form, in its extensions.
#[derive(Debug, Clone, Copy)]
struct InOpenAiForm;

/// Renders the error in the form that clients of OpenAI read, what the shared middlewares refuse included.
/// `Allow` stays as well.
pub fn render_openai(mut answer: Response, production: bool) -> Response {
    let error = answer.extensions_mut().remove::<ErrorBody>();
    let is_rendered = answer.extensions().get::<InOpenAiForm>().is_some();
    let mut rendered = match &error {
        Some(ErrorBody(error)) => {
            let ErrorAnswer { retry_after, header, .. } = error.answer(production);
            let (status, body) = error.openai(production);
            let mut rendered = answers::visible_json(status, &body);
            ErrorAnswer::add_headers(&mut rendered, retry_after, header);
            rendered
        }
        None if !is_rendered && answer.extensions().get::<Failure>().is_some() => {
            let status = answer.status();
            let text = status.canonical_reason().unwrap_or_default();
            answers::visible_json(status, &problem::body(status, text, None, problem::code_of(status)))
        }
        None => return answer,
    };
    for name in [ALLOW, CONNECTION] {
        if let Some(value) = answer.headers_mut().remove(&name) {
            rendered.headers_mut().insert(name, value);
        }
    }
    rendered.extensions_mut().extend(std::mem::take(answer.extensions_mut()));
    rendered.extensions_mut().insert(InOpenAiForm);
    if let Some(ErrorBody(error)) = error {
        rendered.extensions_mut().insert(Failure::shared(error));
    }
    rendered
}

/// An answer that says what is wrong in OpenAI's form already, and when to come back where more than
/// the status says that.
pub fn refuse_openai(status: StatusCode, error: &Value, retry_after: Option<Duration>) -> Response {
    let mut answer = answers::json(status, error);
    ErrorAnswer::add_headers(&mut answer, retry_after.or_else(|| soon(status)), None);
    answer
}

/// Not yet what a client gets: see [`render`].
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut answer = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        answer.extensions_mut().insert(ErrorBody(Arc::new(self)));
        answer
    }
}
