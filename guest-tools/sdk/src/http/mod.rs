//! HTTP for tools that the operator's policy lets send requests (`wasi:http` 0.2). Credentials are no
//! business of a tool: the host adds them. Redirects are responses like any other.
//!
//! [`get_json`] and [`post_json`] are a request, its status and its JSON in one; [`get`] and [`send`] are for
//! all else. Native tests have [`double::answer`].

#[cfg(not(target_arch = "wasm32"))]
pub mod double;
mod json;
mod response;
#[cfg(target_arch = "wasm32")]
mod wasi;

pub use json::{encode_segment, get_json, post_json};
pub use response::Response;
pub use wasip2::http::types::Method;

use crate::Failure;
#[cfg(not(target_arch = "wasm32"))]
use double as host;
#[cfg(target_arch = "wasm32")]
use wasi as host;

/// A response whose body is still to be read.
#[derive(Debug)]
pub struct Head(host::Incoming);

/// Sends a `GET`.
///
/// # Errors
/// `invalid-arguments` for what is no URL, `denied` for what the policy does not grant, `unavailable` for
/// what failed on the way.
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
