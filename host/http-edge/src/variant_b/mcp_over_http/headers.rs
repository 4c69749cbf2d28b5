//! What the headers of the protocol say.

use http::{HeaderMap, HeaderName};
use rmcp::model::ProtocolVersion;

use super::super::error::McpRefusal;
use mcp_server::SUPPORTED;

/// Of a session. It is given in the answer to `initialize`, and clients send it back.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Which version a client speaks.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Longest session id. Ours have 36 bytes.
const SESSION_BYTES: usize = 64;

/// The session that a request belongs to; empty without one.
pub(super) fn session(headers: &HeaderMap) -> Result<&str, McpRefusal> {
    let Some(value) = headers.get(SESSION_ID) else { return Ok("") };
    let is_ours = |id: &&str| (1..=SESSION_BYTES).contains(&id.len());
    value.to_str().ok().filter(is_ours).ok_or(McpRefusal::Session)
}

/// The version that a request is in. Without the header it is the one that had none.
pub(super) fn version(headers: &HeaderMap) -> Result<&'static ProtocolVersion, McpRefusal> {
    let Some(value) = headers.get(PROTOCOL_VERSION) else { return Ok(&ProtocolVersion::V_2025_03_26) };
    let is_it = |version: &&ProtocolVersion| version.as_str().as_bytes() == value.as_bytes();
    SUPPORTED.iter().find(is_it).ok_or(McpRefusal::Version)
}
