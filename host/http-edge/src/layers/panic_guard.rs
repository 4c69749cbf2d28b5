//! Turns a panic of a handler into an answer. The log line about it is the request log's.

use std::any::Any;

use axum::response::Response;
use http::StatusCode;

use crate::answer;

/// A bug of ours: the client learns nothing of it (interface, Errors), the log learns its text.
pub(super) fn answer_panic(payload: Box<dyn Any + Send>) -> Response {
    let text = match payload.downcast::<String>() {
        Ok(formatted) => *formatted,
        Err(payload) => payload.downcast::<&str>().map_or_else(|_| "no text".into(), |text| (*text).into()),
    };
    answer::fail(StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR, Panicked(text))
}

#[derive(Debug, thiserror::Error)]
#[error("the handler panicked: {0}")]
struct Panicked(String);
