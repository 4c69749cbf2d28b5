//! How answers are written, and how a failure travels beside its answer to the request log.
//!
//! Nothing here logs: an answer carries its error in its extensions and the log layer, which knows the
//! request as well, writes the one line about it.

pub(crate) mod health_log;
pub(crate) mod result_json;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use agent_core::error_chain::ErrorChain;
use agent_core::terminal_text::shown_json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::body::ACCEPTED_CODINGS;

/// As the Node stack writes it (host/docs/interface/node-clients.md#response-headers).
pub const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// What clients are told when the fault is ours (host/docs/interface/errors-and-limits.md#errors).
pub const INTERNAL_ERROR: &str = "Internal server error";

/// What clients are told that encoded a body in a way that we do not understand.
pub const UNSUPPORTED_CODING: &str = "Unsupported content encoding";

/// A 415 that says which content codings there are (RFC 9110, section 15.5.16); any other answer as it is.
pub fn naming_codings(mut response: Response) -> Response {
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        response.headers_mut().insert(ACCEPT_ENCODING, ACCEPTED_CODINGS);
    }
    response
}

/// A JSON body with that status.
pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => json_bytes(status, bytes),
        Err(error) => fail(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, error),
    }
}

/// An answer with texts of strangers that people read: what cannot be seen in them is escaped.
pub fn visible_json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_string(body) {
        Ok(json) => json_bytes(status, shown_json(&json)),
        Err(error) => fail(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, error),
    }
}

/// A body that is JSON already.
pub fn json_bytes(status: StatusCode, bytes: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, JSON)], bytes.into()).into_response()
}

/// `{"error": text}`. `text` is all that the client learns.
pub fn refuse(status: StatusCode, text: &'static str) -> Response {
    refuse_with(status, text)
}

/// `{"error": reason}`, where the reason is more than a fixed text.
pub fn refuse_with<T: Serialize + ?Sized>(status: StatusCode, reason: &T) -> Response {
    json(status, &Refusal { error: reason })
}

/// Refuses with a reason in which strangers are quoted.
pub fn refuse_visibly<T: Serialize + ?Sized>(status: StatusCode, reason: &T) -> Response {
    visible_json(status, &Refusal { error: reason })
}

#[derive(Serialize)]
struct Refusal<'a, T: ?Sized> {
    error: &'a T,
}

/// `{"error": text}` for the client, and the error itself for the log.
pub fn fail(status: StatusCode, text: &'static str, error: impl Error + Send + Sync + 'static) -> Response {
    let mut response = refuse(status, text);
    response.extensions_mut().insert(Failure::new(error));
    response
}

/// The error behind an answer, for the log.
#[derive(Debug, Clone)]
pub struct Failure(Arc<dyn Error + Send + Sync>);

impl Failure {
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self::shared(Arc::new(error))
    }

    pub fn shared(error: Arc<dyn Error + Send + Sync>) -> Self {
        Self(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ErrorChain(&*self.0).fmt(f)
    }
}

/// Marks the answer to a question that machines ask every few seconds. As long as the answer is a good one
/// nobody wants to read about it.
#[derive(Debug, Clone, Copy)]
pub struct RoutineAnswer;
