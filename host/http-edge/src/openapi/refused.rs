//! What is said of an error: a row of a variant's error table, as clients see it.

use http::{HeaderName, StatusCode};
use serde_json::Value;

use crate::request::Object;

/// An answer that is no success.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub status: StatusCode,
    pub body: RefusedBody,
    /// Headers that only such answers have.
    pub headers: Vec<HeaderName>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RefusedBody {
    Empty,
    /// A bare text that calls itself HTML.
    Page(&'static str),
    /// `{"error": text}`.
    Text(String),
    /// `{"error": [issue, …]}`.
    Issues(Value),
    /// `{"error": {"message", …}}`.
    OpenAi(Value),
}

impl Refused {
    /// `{"error": text}` and no header.
    pub fn text(status: StatusCode, text: &str) -> Self {
        Self { status, body: RefusedBody::Text(text.to_owned()), headers: vec![] }
    }

    /// What may be wrong with a request of that kind.
    pub fn issue(object: &Object) -> Self {
        // Issues are always JSON.
        let issues = serde_json::to_value([object.likely_issue()]).unwrap_or_default();
        Self { status: StatusCode::BAD_REQUEST, body: RefusedBody::Issues(issues), headers: vec![] }
    }
}
