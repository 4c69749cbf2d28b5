//! Turns a panic of a handler into an answer. The log line about it is the request log's.

use std::any::Any;

use axum::response::Response;
use http::StatusCode;
use tower_http::catch_panic::CatchPanicLayer;

use crate::answer;

/// The layer. It stands right around what may panic, so that no other middleware has to think of panics.
pub(crate) fn layer() -> CatchPanicLayer<fn(Box<dyn Any + Send>) -> Response> {
    CatchPanicLayer::custom(answer_panic as fn(_) -> _)
}

/// A bug of ours: the client learns nothing of it (host/docs/interface/errors-and-limits.md#errors), the log
/// learns its text.
pub(crate) fn answer_panic(payload: Box<dyn Any + Send>) -> Response {
    let text = match payload.downcast::<String>() {
        Ok(formatted) => *formatted,
        Err(payload) => payload.downcast::<&str>().map_or_else(|_| "no text".into(), |text| (*text).into()),
    };
    answer::fail(StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR, Panicked(text))
}

#[derive(Debug, thiserror::Error)]
#[error("the handler panicked: {0}")]
struct Panicked(String);
