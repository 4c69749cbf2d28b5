//! `GET /mcp`: a stream that tells of swaps, in the versions before 2026-07-28. The id of an event is the
//! digest of the caller's tools, so that whoever returns after a while, on whichever replica, hears of what
//! they missed.

use std::convert::Infallible;
use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::unfold;
use http::HeaderMap;
use rmcp::model::ProtocolVersion;
use run_service::direct_calls::ToolChanges;
use tokio::time::{Instant, timeout};

use super::super::error::McpRefusal;
use super::headers;
use super::state::Shared;
use crate::server_sent_events::{self, HEARTBEAT, LAST_EVENT_ID, accepts_events};
use crate::variant_b::auth::Caller;
use crate::variant_b::error::Error;
use run_service::streams::{STREAM_LIFE, StreamPermit};

/// How soon clients return, in milliseconds.
const RETRY_MS: u32 = 1000;

/// Longest digest that is read.
const DIGEST_BYTES: usize = 128;

/// The notification, in JSON.
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

pub(super) async fn follow_changes(
    State(mcp): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Error> {
    if mcp.edge.settings.whole_answers {
        return Err(McpRefusal::WholeAnswers.into());
    }
    if !accepts_events(&headers) {
        return Err(McpRefusal::NoEventsAccepted.into());
    }
    headers::session(&headers)?;
    let version = headers::version(&headers)?;
    if !version.has_initialize() {
        return Err(McpRefusal::NoStream.into());
    }
    mcp.edge.variant.tool_calls.prepared().await?;
    let permit = mcp.edge.streams.acquire(caller.id()).ok_or(Error::TooManyStreams)?;
    let changes = mcp.edge.variant.tool_calls.changes(&caller.principal(), last_digest(&headers));
    let wants_id = version.as_str() >= ProtocolVersion::V_2025_11_25.as_str();
    let stream = Stream { changes, begun: None, wants_id, is_over: false, _permit: permit };
    let chunks = unfold(stream, async |mut stream| {
        let chunk = stream.next_chunk().await?;
        Some((Ok::<_, Infallible>(chunk), stream))
    });
    Ok(server_sent_events::respond(Body::from_stream(chunks)))
}

/// The tools that the client knew when it was here last.
fn last_digest(headers: &HeaderMap) -> Option<&str> {
    let digest = headers.get(LAST_EVENT_ID)?.to_str().ok()?;
    (1..=DIGEST_BYTES).contains(&digest.len()).then_some(digest)
}

struct Stream {
    changes: ToolChanges,
    /// Absent before the first chunk.
    begun: Option<Instant>,
    /// Whether the client is given an id before there is an event: older ones do not know events without
    /// data.
    wants_id: bool,
    is_over: bool,
    _permit: StreamPermit,
}

impl Stream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let Some(begun) = self.begun else {
            self.begun = Some(Instant::now());
            return Some(self.first_chunk().into());
        };
        if begun.elapsed() >= STREAM_LIFE {
            return None;
        }
        Some(match timeout(HEARTBEAT, self.changes.next()).await {
            Ok(Some(digest)) => format!("id: {digest}\ndata: {CHANGED}\n\n").into(),
            Ok(None) => {
                self.is_over = true;
                Bytes::from_static(b": the service is stopping: come back\n\n")
            }
            Err(_elapsed) => Bytes::from_static(b": heartbeat\n\n"),
        })
    }

    /// Sent at once, so that the client knows that it is connected.
    fn first_chunk(&self) -> String {
        let mut text = format!("retry: {RETRY_MS}\n\n");
        if self.wants_id {
            // Writing to a string cannot fail.
            let _ = write!(text, "id: {}\ndata:\n\n", self.changes.digest());
        }
        text
    }
}
