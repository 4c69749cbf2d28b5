//! Requests as the bytes that are sent.

use std::fmt::Display;

/// Makes a request with a JSON body. Each line of `headers` ends with `\r\n`.
pub(crate) fn post(path: &str, headers: &str, body: impl Display) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

/// Makes a request without a body. Each line of `headers` ends with `\r\n`.
pub(crate) fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").into_bytes()
}
