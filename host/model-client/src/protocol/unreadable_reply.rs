//! Why a response holds no reply.

use json_schema::ReadError;

/// Why the body of a successful response is no reply.
#[derive(Debug)]
pub(crate) struct UnreadableReply {
    /// What is wrong with it.
    pub(crate) detail: String,
    /// The reply is the beginning of a JSON text: the connection may have broken.
    pub(crate) truncated: bool,
    /// The body holds nothing, or not all of a reply: another try may bring one.
    pub(crate) retryable: bool,
}

impl UnreadableReply {
    /// A complete body that no reply can have. Another try would bring the same.
    pub(crate) fn invalid(detail: &str) -> Self {
        Self { detail: detail.to_owned(), truncated: false, retryable: false }
    }

    /// A complete body without a reply in it, which another try may bring.
    pub(crate) fn empty(detail: &str) -> Self {
        Self { detail: detail.to_owned(), truncated: false, retryable: true }
    }
}

impl From<ReadError> for UnreadableReply {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Json(error) => error.into(),
            ReadError::TooLarge { .. } => Self::invalid(&error.to_string()),
        }
    }
}

impl From<serde_json::Error> for UnreadableReply {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let detail = match error.classify() {
            Category::Data => format!("it has not the shape of a reply: {error}"),
            Category::Syntax | Category::Eof | Category::Io => format!("it is not JSON: {error}"),
        };
        Self { detail, truncated: error.is_eof(), retryable: error.is_eof() }
    }
}
