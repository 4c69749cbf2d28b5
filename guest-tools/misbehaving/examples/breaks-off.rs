//! A component that ends in the middle of what it sends: the half of a body is written, and the rest never
//! comes.

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, Method, OutgoingRequest, Scheme};

/// Where to send it.
#[derive(Debug, Deserialize, JsonSchema)]
struct Place {
    /// Host and port.
    authority: String,
}

/// What is never returned.
#[derive(Debug, Serialize, JsonSchema)]
struct Sent {}

fn break_off(Place { authority }: Place) -> Result<Sent, Failure> {
    let failed = |part: &str| Failure::new("unavailable", part);
    // Without a length it is sent in chunks, and only the last one says that it is whole.
    let request = OutgoingRequest::new(Fields::new());
    request.set_method(&Method::Post).map_err(|()| failed("method"))?;
    request.set_scheme(Some(&Scheme::Http)).map_err(|()| failed("scheme"))?;
    request.set_authority(Some(&authority)).map_err(|()| failed("authority"))?;
    request.set_path_with_query(Some("/")).map_err(|()| failed("path"))?;
    let body = request.body().map_err(|()| failed("body"))?;
    let _waiting = outgoing_handler::handle(request, None).map_err(|error| failed(&error.to_string()))?;
    let stream = body.write().map_err(|()| failed("stream"))?;
    // More than waits anywhere, so that there is a connection and some of it was sent.
    for _ in 0..8 {
        stream.blocking_write_and_flush(&[b'x'; 1000]).map_err(|error| failed(&error.to_string()))?;
    }
    std::process::abort()
}

agent_tool_sdk::export! {
    /// Sends the half of a body, and traps.
    break_off(Place) -> Sent;
}
