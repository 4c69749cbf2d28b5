//! The HTTP edge: tokens, bodies, and whole requests through the router.

use std::cell::RefCell;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use http_edge::testing;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::parts;
use super::served::{Served, serve};

/// Most bytes of an answer: pages of the documentation are the longest.
const MOST_ANSWER_BYTES: usize = 4 << 20;

/// How long a client reads an answer, by a clock that jumps: longer than any wait that a request may ask for.
const PATIENCE: Duration = Duration::from_hours(2);

/// A token holds when its signature is ours.
pub(crate) fn token(input: &[u8]) {
    testing::verify_token(input);
}

/// Which coding, and an encoded body.
pub(crate) fn coded_body(input: &[u8]) {
    let (coding, body) = input.split_first().unwrap_or((&0, &[]));
    testing::decode_body(*coding, body);
}

/// What a client brings back of what it was shown.
pub(crate) fn request_state(input: &[u8]) {
    mcp_server::testing::open_state(&String::from_utf8_lossy(input));
}

/// A request line, headers, an empty line, and a body; up to four of these, one after another. Whatever they
/// are, each answer is whole, within its time, none of a failure, and JSON where it says so.
pub(crate) fn requests(input: &[u8]) {
    drop(statuses(input));
}

/// What requests are answered, as far as they are any.
pub fn statuses(input: &[u8]) -> Vec<StatusCode> {
    let statuses = RefCell::new(vec![]);
    for request in parts::<4>(input).into_iter().filter_map(request) {
        serve(|served| {
            let statuses = &statuses;
            async move {
                let status = answer(served, request).await;
                statuses.borrow_mut().push(status);
            }
        });
    }
    statuses.into_inner()
}

/// The request that a text is, if one can have its method, path and headers.
fn request(input: &[u8]) -> Option<Request<Full<bytes::Bytes>>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = input.split_at(end.unwrap_or(input.len()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(at);
        request = request.header(name, value.get(1..)?.trim_ascii());
    }
    let body = body.get(2..).unwrap_or_default().to_vec();
    request.body(Full::from(body)).ok()
}

async fn answer(served: Served, mut request: Request<Full<bytes::Bytes>>) -> StatusCode {
    served.authorize(&mut request);
    let line = format!("{} {}", request.method(), request.uri());
    let Ok(response) = served.router.oneshot(request).await;
    let (parts, body) = response.into_parts();
    let may_fail =
        [StatusCode::NOT_IMPLEMENTED, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    let kind = parts.headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let read = timeout(PATIENCE, body.collect()).await;
    // A job that nobody works on has a stream without an end, which its client leaves.
    let is_stream = kind == Some("text/event-stream");
    assert!(read.is_ok() || is_stream, "{line}: an answer without an end");
    let body = read.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    assert!(body.len() <= MOST_ANSWER_BYTES, "{line}: an answer of {} bytes", body.len());
    let is_failure = parts.status.is_server_error() && !may_fail.contains(&parts.status);
    assert!(!is_failure, "{line}: {}: {}", parts.status, String::from_utf8_lossy(&body));
    if kind.is_some_and(|kind| kind.contains("json")) && !body.is_empty() {
        let read = serde_json::from_slice::<serde_json::Value>(&body);
        assert!(read.is_ok(), "{line}: its answer is no JSON: {}", String::from_utf8_lossy(&body));
    }
    parts.status
}
