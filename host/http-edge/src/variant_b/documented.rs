//! Which errors the routes of Variant B have in common, for the document. Each is one that the table in
//! `error.rs` answers, so that the document has the very statuses, texts and headers that clients get.

use std::time::Duration;

use agent_core::ports::{ModelError, QueueError};
use run_service::conversations::ConversationRefusal;
use run_service::layers::InvokeError;
use run_service::loop_driver::RunError;

use super::bodies::AgentRequest;
use super::error::Error;
use crate::body::BodyError;
use crate::middleware::idempotency::Refusal;
use crate::request::Request;
use crate::tokens::TokenError;

/// What is refused because a window is full.
pub fn limits() -> [Error; 2] {
    let retry_after = Duration::ZERO;
    [Error::AddressLimited { retry_after }, Error::UserLimited { retry_after }]
}

/// What is refused for its token.
pub fn tokens() -> [Error; 2] {
    [Error::NoToken, Error::Token(TokenError::Expired)]
}

/// What is refused for its idempotency key.
pub fn keys() -> impl Iterator<Item = Error> {
    Refusal::documented().into_iter().map(Error::from)
}

/// What is refused of a body that is to be JSON.
pub fn bodies() -> [Error; 5] {
    [
        Error::Body(BodyError::TooLarge { limit: 0 }),
        Error::Body(BodyError::TooSlow { limit: Duration::ZERO }),
        Error::Body(BodyError::UnknownCoding),
        // What a body is told that is no JSON.
        Error::Body(BodyError::Undecodable(std::io::ErrorKind::InvalidData.into())),
        Error::Schema(AgentRequest::OBJECT.likely_issue().into()),
    ]
}

/// Ways for a run to end without a result.
pub fn runs() -> [Error; 2] {
    let (provider, detail) = (String::new(), String::new());
    let limited = ModelError::RateLimited { provider, detail, retry_after: None, quota_exhausted: false };
    [InvokeError::Run(RunError::Model(limited)), InvokeError::Busy { waited: Duration::ZERO }]
        .map(Error::Invoke)
}

/// What is refused of a conversation that cannot be gone on with.
pub fn conversations() -> [Error; 1] {
    [Error::Invoke(InvokeError::Conversation(ConversationRefusal::Busy))]
}

/// What is answered while a store cannot be reached.
pub fn stores() -> [Error; 1] {
    [Error::Queue(QueueError::Store { detail: String::new() })]
}
