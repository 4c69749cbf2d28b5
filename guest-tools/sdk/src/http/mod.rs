//! HTTP for tools that the operator's policy lets send requests (`wasi:http` 0.2). Credentials are no business of a tool:
//! the host adds them. Redirects are responses like any other.
//!
//! [`get_json`] and [`post_json`] are a request, its status and its JSON in one; [`get`] and [`send`] are for all else.
//! Native tests have [`double::answer`].

#[cfg(not(target_arch = "wasm32"))]
pub mod double;
mod json;
#[cfg(target_arch = "wasm32")]
mod wasi;

pub use json::{encode_segment, get_json, post_json};
pub use wasip2::http::types::Method;

use crate::Failure;
#[cfg(not(target_arch = "wasm32"))]
use double as host;
#[cfg(target_arch = "wasm32")]
use wasi as host;

/// A response whose body is still to be read.
#[derive(Debug)]
pub struct Head(host::Incoming);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As the server sent it.
    pub body: Vec<u8>,
    /// Whether the server had more than was to be read.
    pub truncated: bool,
}

/// Sends a `GET`.
///
/// # Errors
/// `invalid-arguments` for what is no URL, `denied` for what the policy does not grant, `unavailable` for what failed on
/// the way.
pub fn get(url: &str) -> Result<Head, Failure> {
    send(&Method::Get, url, &[], &[])
}

/// Sends a request.
///
/// # Errors
/// As [`get`].
pub fn send(method: &Method, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Head, Failure> {
    host::send(method, url, headers, body).map(Head)
}

impl Head {
    /// Reads the body, up to so many bytes.
    ///
    /// # Errors
    /// `unavailable` when it breaks off.
    pub fn read(self, most: usize) -> Result<Response, Failure> {
        self.0.read(most)
    }
}

impl Response {
    /// A response without headers, for tests.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), truncated: false }
    }

    /// The same response with one more header; its name in lower case.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The first header of that name (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }
}
