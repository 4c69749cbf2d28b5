//! Requests by `wasi:http` 0.2: what a component does.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

use super::Method;
use super::response::Response;
use crate::Failure;
use crate::code::{DENIED, INVALID_ARGUMENTS, UNAVAILABLE};

/// Bytes that are read or written at once.
const CHUNK: u64 = 4096;

/// A response whose body is still to be read.
#[derive(Debug)]
pub(super) struct Incoming(IncomingResponse);

pub(super) fn send(
    method: &Method,
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Incoming, Failure> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| Failure::new(INVALID_ARGUMENTS, "the URL has to begin with https://"))?;
    let split = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(split);
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    // Links on pages have it in capitals, too (RFC 3986, 3.1).
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => Scheme::Other(other.to_owned()),
    };
    let fields: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let wrong = |part: &str| Failure::new(INVALID_ARGUMENTS, format!("the URL has no valid {part}"));
    let fields = Fields::from_list(&fields)
        .map_err(|error| Failure::new(INVALID_ARGUMENTS, format!("a header cannot be sent: {error}")))?;
    let request = OutgoingRequest::new(fields);
    request.set_method(method).map_err(|()| Failure::new(INVALID_ARGUMENTS, "that is no method"))?;
    request.set_scheme(Some(&scheme)).map_err(|()| wrong("scheme"))?;
    request.set_authority(Some(authority)).map_err(|()| wrong("host"))?;
    request.set_path_with_query(Some(&path)).map_err(|()| wrong("path"))?;
    let outgoing = request.body().map_err(|()| Failure::new(UNAVAILABLE, "the request has no body"))?;
    let waiting = outgoing_handler::handle(request, None).map_err(|error| failed(&error))?;
    let written = write(outgoing, body);
    waiting.subscribe().block();
    match (waiting.get(), written) {
        // A server may answer before it has read everything.
        (Some(Ok(Ok(response))), _) => Ok(Incoming(response)),
        // The host drops the body of a request that it refuses. Why it did stands here, not in the failed
        // write.
        (Some(Ok(Err(error))), _) => Err(failed(&error)),
        (Some(Err(())) | None, Err(unwritten)) => Err(unwritten),
        (Some(Err(())) | None, Ok(())) => Err(Failure::new(UNAVAILABLE, "the response was taken before")),
    }
}

fn write(outgoing: OutgoingBody, body: &[u8]) -> Result<(), Failure> {
    let broken =
        |error: StreamError| Failure::new(UNAVAILABLE, format!("the request could not be sent: {error}"));
    if !body.is_empty() {
        let stream = outgoing.write().map_err(|()| Failure::new(UNAVAILABLE, "the request has no body"))?;
        for chunk in body.chunks(usize::try_from(CHUNK).unwrap_or(usize::MAX)) {
            stream.blocking_write_and_flush(chunk).map_err(broken)?;
        }
    }
    OutgoingBody::finish(outgoing, None).map_err(|error| failed(&error))
}

impl Incoming {
    pub(super) fn read(self, most: usize) -> Result<Response, Failure> {
        let status = self.0.status();
        let entries = self.0.headers().entries();
        let headers = entries
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(&value).into_owned()))
            .collect();
        let taken = || Failure::new(UNAVAILABLE, "the body was taken before");
        let incoming: IncomingBody = self.0.consume().map_err(|()| taken())?;
        let stream = incoming.stream().map_err(|()| taken())?;
        let mut body = Vec::new();
        let truncated = loop {
            match stream.blocking_read(CHUNK) {
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(StreamError::Closed) => break body.len() > most,
                Err(StreamError::LastOperationFailed(error)) => {
                    let why = error.to_debug_string();
                    return Err(Failure::new(UNAVAILABLE, format!("the answer broke off: {why}")));
                }
            }
            if body.len() > most {
                break true;
            }
        };
        body.truncate(most);
        Ok(Response { status, headers, body, truncated })
    }
}

fn failed(error: &ErrorCode) -> Failure {
    match error {
        // The host says there why it refused.
        ErrorCode::InternalError(Some(why)) => Failure::new(DENIED, why.clone()),
        ErrorCode::HttpRequestDenied => Failure::new(DENIED, "the policy does not grant this request"),
        // Asked again, the server would answer in the same coding.
        ErrorCode::HttpResponseContentCoding(_) => Failure::new(
            DENIED,
            "the server answered with an encoded body (gzip or the like), which the host does not hand on: ask for one \
             that is not encoded",
        ),
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestMethodInvalid => {
            Failure::new(INVALID_ARGUMENTS, format!("the request is not valid: {error}"))
        }
        other => Failure::new(UNAVAILABLE, format!("the request failed: {other}")),
    }
}
