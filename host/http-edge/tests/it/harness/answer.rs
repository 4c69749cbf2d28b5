//! An answer as a client sees it, written out for snapshots.

use std::fmt;

use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};

/// The headers that are part of a promise wherever they occur.
/// `X-RateLimit-Reset` is not among them: it tells the time of day.
const HEADERS_THAT_MATTER: [&str; 15] = [
    "accept",
    "accept-encoding",
    "allow",
    "connection",
    "content-type",
    "etag",
    "location",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "www-authenticate",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
];

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn check(&self, status: StatusCode, body: &str) {
        self.check_at("", status, body);
    }

    /// As [`Self::check`], of one of several answers.
    #[track_caller]
    pub(crate) fn check_at(&self, place: impl fmt::Display, status: StatusCode, body: &str) {
        assert_eq!((self.status, self.body.as_str()), (status, body), "{place}");
    }

    /// An error in OpenAI's form, one of whose fields has this text.
    #[track_caller]
    pub(crate) fn check_error(&self, status: u16, field: &str, text: &str) {
        let told = &self.json()["error"][field];
        assert_eq!((self.status.as_u16(), told.as_str()), (status, Some(text)), "{self}");
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status)?;
        for name in HEADERS_THAT_MATTER {
            if let Some(value) = self.header(name) {
                writeln!(f, "{name}: {value}")?;
            }
        }
        write!(f, "{}", self.body)
    }
}
