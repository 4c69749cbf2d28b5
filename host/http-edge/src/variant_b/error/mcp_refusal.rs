//! What `/mcp` refuses by itself. What is wrong with a message that can be read is an error of the protocol,
//! in an answer of the protocol.

use http::header::ALLOW;
use http::{HeaderName, HeaderValue, StatusCode};

/// Why a request is not answered by a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum McpRefusal {
    /// `POST` may be answered by either, so clients have to take both.
    #[error("Accept has to name application/json and text/event-stream")]
    NotBothAccepted,
    /// `GET` is answered by a stream alone.
    #[error("Accept has to name text/event-stream")]
    NoEventsAccepted,
    #[error("Content-Type has to be application/json")]
    ContentType,
    #[error("MCP-Protocol-Version is none that is spoken here")]
    Version,
    #[error("Mcp-Session-Id is none of ours")]
    Session,
    /// Since 2026-07-28 a message asks for it.
    #[error("This version has no stream to read: send subscriptions/listen")]
    NoStream,
    /// A stream that has no end would never be passed on.
    #[error("There is no stream of changes here: ask for tools/list again")]
    WholeAnswers,
    /// The SDK did not answer.
    #[error("the message was not answered")]
    Unanswered,
}

impl McpRefusal {
    pub(in crate::variant_b) const fn status(self) -> StatusCode {
        match self {
            Self::NotBothAccepted | Self::NoEventsAccepted => StatusCode::NOT_ACCEPTABLE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Version | Self::Session => StatusCode::BAD_REQUEST,
            Self::NoStream | Self::WholeAnswers => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unanswered => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What the answer says beside its text.
    pub(in crate::variant_b) fn header(self) -> Option<(HeaderName, HeaderValue)> {
        let is_about_get = matches!(self, Self::NoStream | Self::WholeAnswers);
        is_about_get.then_some((ALLOW, HeaderValue::from_static("POST")))
    }
}
