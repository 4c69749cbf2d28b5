//! Which errors the routes of Variant B have in common, for the document. Each is one that the table in `error.rs` answers,
//! so that the document has the very statuses, texts and headers that clients get.

use std::time::Duration;

use agent_core::conversations::ConversationRefusal;
use agent_core::layers::InvokeError;
use agent_core::loop_driver::RunError;
use agent_core::ports::{ModelError, QueueError};

use super::error::Error;
use super::validation_issue::Issue;
use crate::body::BodyError;
use crate::middleware::idempotency::Refusal;
use crate::openapi::Refused;
use crate::tokens::TokenError;

/// What is refused because a window is full.
pub(super) fn limits() -> impl Iterator<Item = Refused> {
    let retry_after = Duration::ZERO;
    rows([Error::AddressLimited { retry_after }, Error::UserLimited { retry_after }])
}

/// What is refused for its token.
pub(super) fn tokens() -> [Error; 2] {
    [Error::NoToken, Error::Token(TokenError::Expired)]
}

/// What is refused for its idempotency key.
pub(super) fn keys() -> impl Iterator<Item = Refused> {
    Refusal::documented().into_iter().map(|refusal| Error::from(refusal).refused())
}

/// What is refused of a body that is to be JSON.
pub(super) fn bodies() -> impl Iterator<Item = Refused> {
    rows([
        Error::Body(BodyError::TooLarge { limit: 0 }),
        Error::Body(BodyError::TooSlow { limit: Duration::ZERO }),
        Error::Body(BodyError::UnknownCoding),
        // What a body is told that is no JSON.
        Error::Body(BodyError::Undecodable(std::io::ErrorKind::InvalidData.into())),
        schema(Issue::required("string", &["query"])),
    ])
}

/// What is refused of a query string.
pub(super) fn parameters(issue: Issue) -> impl Iterator<Item = Refused> {
    rows([schema(issue)])
}

/// Ways for a run to end without a result.
pub(super) fn runs() -> impl Iterator<Item = Refused> {
    let limited =
        ModelError::RateLimited { provider: String::new(), detail: String::new(), retry_after: None };
    rows([
        Error::Invoke(InvokeError::Run(RunError::Model(limited))),
        Error::Invoke(InvokeError::Busy { waited: Duration::ZERO }),
    ])
}

/// What is refused of a conversation that cannot be gone on with.
pub(super) fn conversations() -> impl Iterator<Item = Refused> {
    rows([Error::Invoke(InvokeError::Conversation(ConversationRefusal::Busy))])
}

/// What is answered while a store cannot be reached.
pub(super) fn stores() -> impl Iterator<Item = Refused> {
    rows([Error::Queue(QueueError::Store { detail: String::new() })])
}

/// Rows of the error table.
pub(super) fn rows<const N: usize>(errors: [Error; N]) -> impl Iterator<Item = Refused> {
    errors.into_iter().map(|error| error.refused())
}

fn schema(issue: Issue) -> Error {
    Error::Schema(issue.into())
}
