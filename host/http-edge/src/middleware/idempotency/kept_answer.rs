//! An answer as it is kept: a line of JSON with its status and headers, then its body.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LINK, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::response::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

/// Of the answer that begins a session of MCP: its client tells its calls apart by it.
const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The headers that say something about the answer. Those about this exchange (request id, windows, origins,
/// length) are written anew.
static KEPT: [HeaderName; 11] = [
    ACCEPT_ENCODING,
    ALLOW,
    CACHE_CONTROL,
    // The gateway hands on its cluster's body coded. Answers are kept before this service codes them.
    CONTENT_ENCODING,
    CONTENT_TYPE,
    ETAG,
    LINK,
    LOCATION,
    MCP_SESSION_ID,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
];

#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    /// Names with values that are text; others are not kept.
    headers: Vec<(String, String)>,
}

/// The answer, to be read with [`read`].
pub(super) fn write(parts: &Parts, body: &[u8]) -> Vec<u8> {
    let headers = KEPT.iter().flat_map(|name| {
        let values = parts.headers.get_all(name).iter();
        values.filter_map(move |value| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
    });
    let head = Head { status: parts.status.as_u16(), headers: headers.collect() };
    // Numbers and texts always can be written.
    let mut kept = serde_json::to_vec(&head).unwrap_or_default();
    kept.push(b'\n');
    kept.extend_from_slice(body);
    kept
}

/// The answer that was kept; none when another version wrote it in a way that is not known here.
pub(super) fn read(kept: &Bytes) -> Option<Response> {
    // JSON has no line ends within.
    let end = kept.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(kept.get(..end)?).ok()?;
    let mut answer = Response::new(Body::from(kept.slice(end + 1..)));
    *answer.status_mut() = StatusCode::from_u16(head.status).ok()?;
    for (name, value) in head.headers {
        answer
            .headers_mut()
            .append(HeaderName::try_from(name.as_str()).ok()?, HeaderValue::try_from(value.as_str()).ok()?);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_comes_back_with_what_belongs_to_it() {
        let answer = http::Response::builder()
            .status(202)
            .header("content-encoding", "br")
            .header("content-type", "application/json; charset=utf-8")
            .header("location", "/api/agent/jobs/1")
            .header("mcp-session-id", "01a20636")
            .header("x-request-id", "this exchange")
            .header("etag", HeaderValue::from_bytes(b"\xff").unwrap());
        let (parts, ()) = answer.body(()).unwrap().into_parts();
        let kept = write(&parts, b"{\"a\":1}\n\0\xff");
        let answer = read(&kept.into()).unwrap();
        assert_eq!(answer.status(), 202);
        let headers: Vec<_> =
            answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(
            headers,
            [
                ("content-encoding", &b"br"[..]),
                ("content-type", &b"application/json; charset=utf-8"[..]),
                ("location", &b"/api/agent/jobs/1"[..]),
                ("mcp-session-id", &b"01a20636"[..])
            ]
        );
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), &b"{\"a\":1}\n\0\xff"[..]);
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for kept in
            [&b""[..], b"\n", b"{}\n", b"{\"status\":200,\"headers\":[]}", b"{\"status\":1,\"headers\":[]}\n"]
        {
            assert!(read(&Bytes::copy_from_slice(kept)).is_none(), "{kept:?}");
        }
    }
}
