//! Variant A's error table: what a client is told of what goes wrong.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use run_service::layers::InvokeError;

use super::input::InputError;
use crate::answer;
use crate::body::BodyError;
use crate::json::JsonError;
use crate::middleware::idempotency::Refusal;
use crate::openapi::Refused;

/// Everything that can go wrong in a route of Variant A.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Input(#[from] InputError),
    /// No output can be held against `options.outputSchema`.
    #[error("{0}")]
    OutputSchema(String),
    #[error(transparent)]
    Invoke(#[from] InvokeError),
    /// A run ended without a result, as its record says.
    #[error("the run failed")]
    Recorded,
    #[error("there is no such run")]
    UnknownRun,
    #[error("the run had ended")]
    RunHadEnded,
    #[error("nobody knows who carries the run, or its owner is just beginning or appending")]
    RunOutOfReach,
    #[error(transparent)]
    Idempotency(Refusal),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Body(error) => Self::Body(error),
            refusal => Self::Idempotency(refusal),
        }
    }
}

impl Error {
    /// The table. It has no catch-all arm, so that whoever adds an error has to decide what clients see of
    /// it.
    pub(super) fn status_and_text(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Body(BodyError::TooLarge { .. }) | Self::Json(JsonError::TooLarge(_)) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Payload too large")
            }
            Self::Body(BodyError::TooSlow { .. }) => (StatusCode::REQUEST_TIMEOUT, "Request timeout"),
            Self::Body(BodyError::UnknownCoding) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, answer::UNSUPPORTED_CODING)
            }
            Self::Body(BodyError::Broken(_) | BodyError::Undecodable(_))
            | Self::Json(JsonError::Syntax { .. })
            | Self::Input(_)
            | Self::OutputSchema(_)
            | Self::Invoke(InvokeError::UnknownTools { .. }) => (StatusCode::BAD_REQUEST, "Invalid input"),
            // Whatever the reason is (host/docs/interface/errors-and-limits.md#errors).
            Self::Invoke(
                InvokeError::Run(_)
                | InvokeError::TimedOut { .. }
                | InvokeError::Busy { .. }
                | InvokeError::CircuitOpen { .. }
                | InvokeError::Stopping
                | InvokeError::ToolsNotPrepared { .. }
                // Variant A counts nobody, and has neither jobs nor conversations.
                | InvokeError::OverLimit
                | InvokeError::Waits { .. }
                | InvokeError::Conversation(_),
            )
            | Self::Recorded => (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR),
            Self::UnknownRun => (StatusCode::NOT_FOUND, "Not found"),
            Self::RunHadEnded => (StatusCode::CONFLICT, "The run has already ended"),
            Self::RunOutOfReach => (StatusCode::CONFLICT, "The run cannot be cancelled at this moment"),
            Self::Idempotency(refusal) => {
                let internal = (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR);
                refusal.status_and_text().unwrap_or(internal)
            }
        }
    }
}

impl Error {
    /// One error of each row of the table, for the document.
    pub(super) fn documented() -> impl Iterator<Item = Refused> {
        let rows = [
            Self::Body(BodyError::TooLarge { limit: 0 }),
            Self::Body(BodyError::TooSlow { limit: Duration::ZERO }),
            Self::Body(BodyError::UnknownCoding),
            Self::Input(InputError::example()),
            Self::Invoke(InvokeError::Busy { waited: Duration::ZERO }),
        ];
        rows.into_iter().map(|error| {
            let (status, text) = error.status_and_text();
            let codings = (status == StatusCode::UNSUPPORTED_MEDIA_TYPE).then_some(ACCEPT_ENCODING);
            Refused { headers: codings.into_iter().collect(), ..Refused::text(status, text) }
        })
    }
}

impl Error {
    /// What is refused for its idempotency key.
    pub(super) fn of_keys() -> impl Iterator<Item = Refused> {
        Refusal::documented().into_iter().map(|refusal| {
            let again = refusal.may_be_tried_again().then_some(RETRY_AFTER);
            let (status, text) = Self::from(refusal).status_and_text();
            Refused { headers: again.into_iter().collect(), ..Refused::text(status, text) }
        })
    }

    /// What is refused of a run that is asked for by its id.
    pub(super) fn of_runs(errors: impl IntoIterator<Item = Self>) -> impl Iterator<Item = Refused> {
        errors.into_iter().map(|error| {
            let again = error.may_be_tried_again().then_some(RETRY_AFTER);
            let (status, text) = error.status_and_text();
            Refused { headers: again.into_iter().collect(), ..Refused::text(status, text) }
        })
    }

    /// Whether the same request may fare better in a moment.
    fn may_be_tried_again(&self) -> bool {
        match self {
            Self::Idempotency(refusal) => refusal.may_be_tried_again(),
            Self::RunOutOfReach => true,
            _ => false,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, text) = self.status_and_text();
        let again = self.may_be_tried_again();
        // Whoever sends a schema is told what is wrong with it: the option is one of our own.
        let why = match &self {
            Self::OutputSchema(why) => Some(format!("{text}: {why}")),
            _ => None,
        };
        let mut answer = answer::naming_codings(answer::fail(status, text, self));
        if let Some(why) = why {
            let failure = std::mem::take(answer.extensions_mut());
            answer = answer::refuse_visibly(status, &why);
            *answer.extensions_mut() = failure;
        }
        if again {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}
