//! Gives every request a name that its caller, its answer and every log line agree on.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// host/docs/interface/decisions-http.md#paths-and-methods: accepted or made, echoed, in every log line.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longer than any id in use, short enough for a log line.
const MAX_LENGTH: usize = 128;

/// The name of one request. Handlers take it as an argument.
#[derive(Debug, Clone)]
pub struct RequestId(Arc<str>);

impl RequestId {
    fn from_headers(headers: &HeaderMap) -> Self {
        match headers.get(HEADER).and_then(acceptable) {
            Some(theirs) => Self(theirs.into()),
            None => Self::unique(),
        }
    }

    /// Version 7 begins with the time, so that ids sort as their requests came.
    pub fn unique() -> Self {
        let mut text = Uuid::encode_buffer();
        Self(Arc::from(&*Uuid::now_v7().hyphenated().encode_lower(&mut text)))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_else(Self::unique))
    }
}

/// A caller's id is taken only if it can stand unescaped wherever ids stand: in logs, headers and queries.
fn acceptable(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    ((1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(safe)).then_some(text)
}

/// Names a request, and writes the name on its answer.
pub(crate) fn name(request: &mut Request) -> impl FnOnce(Response) -> Response + use<> {
    let id = RequestId::from_headers(request.headers());
    request.extensions_mut().insert(id.clone());
    move |mut answer| {
        // An id is always fit for a header: it was checked or made above.
        if let Ok(id) = HeaderValue::from_str(&id.0) {
            answer.headers_mut().insert(HEADER, id);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_plain_ids_are_accepted() {
        let accepts = |id: &[u8]| acceptable(&HeaderValue::from_bytes(id).unwrap()).is_some();
        for id in ["a", "0190-b.c_d:E", &"x".repeat(128)] {
            assert!(accepts(id.as_bytes()), "{id}");
        }
        for id in ["", " ", "a b", "a,b", "a\tb", "a\"b", "a/b", "a%0Ab", "é", &"x".repeat(129)] {
            assert!(!accepts(id.as_bytes()), "{id}");
        }
        assert!(!accepts(b"\xFF"));
    }

    #[test]
    fn ids_we_make_are_ids_we_accept() {
        let id = RequestId::unique();
        assert_eq!(acceptable(&HeaderValue::from_str(&id.0).unwrap()), Some(&*id.0));
    }
}
