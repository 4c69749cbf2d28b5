//! Variant A's error table: what a client is told of what goes wrong.

use agent_core::policy::InvokeError;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::input::InputError;
use crate::answer;
use crate::body::BodyError;
use crate::json::NotJson;

/// Everything that can go wrong in a route of Variant A.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum Error {
    Body(#[from] BodyError),
    Json(#[from] NotJson),
    Input(#[from] InputError),
    Invoke(#[from] InvokeError),
}

impl Error {
    /// The table. It has no catch-all arm, so that whoever adds an error has to decide what clients see of it.
    fn status_and_text(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Body(BodyError::TooLarge { .. }) => (StatusCode::PAYLOAD_TOO_LARGE, "Payload too large"),
            Self::Body(BodyError::TooSlow { .. }) => (StatusCode::REQUEST_TIMEOUT, "Request timeout"),
            Self::Body(BodyError::UnknownCoding) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, answer::UNSUPPORTED_CODING)
            }
            Self::Body(BodyError::Broken(_) | BodyError::Undecodable(_))
            | Self::Json(_)
            | Self::Input(_)
            | Self::Invoke(InvokeError::UnknownTools { .. }) => (StatusCode::BAD_REQUEST, "Invalid input"),
            // "500 | Variant A: agent throws" (interface, Errors), for whatever reason.
            Self::Invoke(
                InvokeError::Run(_)
                | InvokeError::TimedOut { .. }
                | InvokeError::Busy { .. }
                | InvokeError::CircuitOpen { .. },
            ) => (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, text) = self.status_and_text();
        answer::naming_codings(answer::fail(status, text, self))
    }
}
