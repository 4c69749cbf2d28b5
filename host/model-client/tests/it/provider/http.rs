//! As much of HTTP/1.1 as it takes to read a request.

use std::collections::HashMap;

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Method and path.
    pub(crate) line: String,
    /// By lower-case name.
    pub(crate) headers: HashMap<String, String>,
    /// Null when it was not JSON.
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The next request; nothing when the client has gone.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        read_some(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let body_start = head_end + 4;
    while bytes.len() < body_start + length {
        read_some(stream, &mut bytes).await?;
    }
    let body = serde_json::from_slice(&bytes[body_start..]).unwrap_or_default();
    Some(Request { line, headers, body })
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(bytes).await.ok()?;
    (read > 0).then_some(())
}
