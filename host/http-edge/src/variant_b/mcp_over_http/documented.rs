//! The routes of `/mcp`, for the document. What the messages are is the protocol's to say.

use std::time::Duration;

use http::StatusCode;
use rmcp::model::ProtocolVersion;
use run_service::layers::InvokeError;
use serde_json::{Value, json};

use super::super::error::McpRefusal;
use super::headers::SESSION_ID;
use super::messages::ErrorMessage;
use crate::body::BodyError;
use crate::openapi::schema_parts::{always, of};
use crate::openapi::{Operation, Parameter, tags};
use crate::variant_b::error::Error;
use mcp_server::SUPPORTED;

pub(super) fn messages() -> Operation {
    let refused =
        [McpRefusal::NotBothAccepted, McpRefusal::ContentType, McpRefusal::Version, McpRefusal::Session];
    let method = json!({ "type": "string", "examples": ["tools/list"] });
    common(Operation::new("sendMcpMessage", tags::MCP, "Send a message to the MCP server"))
        .about(
            "The tools as an MCP server over streamable HTTP, for the tokens of the API. `Accept` has to name \
             `application/json` and `text/event-stream`.",
        )
        .parameter(Parameter::header("Mcp-Method", "The message's `method`. Needed since 2026-07-28.", method))
        .request_id()
        .json_body("McpMessage", message(), true)
        .answers_object("The answer to a request")
        .answers_text("text/event-stream", "Notifications, and the answer as the last event")
        .answers_nothing(StatusCode::ACCEPTED, "A notification has been read")
        .answers::<ErrorMessage>(StatusCode::BAD_REQUEST, "The message cannot be read, or is in no version that is spoken")
        .answers::<ErrorMessage>(StatusCode::NOT_FOUND, "The method is not known (since 2026-07-28)")
        .header(StatusCode::OK, &SESSION_ID)
        .refuses(refused.map(Error::Mcp))
        .refuses(bodies())
}

pub(super) fn changes() -> Operation {
    let refused =
        [McpRefusal::NoEventsAccepted, McpRefusal::Version, McpRefusal::Session, McpRefusal::NoStream]
            .map(Error::Mcp);
    let last = json!({ "type": "string", "maxLength": 128, "examples": ["sha256:6f3b"] });
    common(Operation::new("followMcpChanges", tags::MCP, "Be told when the tools change"))
        .about("Notifications of the MCP server, in the versions before 2026-07-28.")
        .parameter(Parameter::header("Last-Event-ID", "The last event that was read.", last))
        .answers_text("text/event-stream", "A notification for each swap")
        .refuses(refused)
        .refuses([Error::TooManyStreams])
}

fn common(operation: Operation) -> Operation {
    let versions: Vec<_> = SUPPORTED.iter().map(ProtocolVersion::as_str).collect();
    let version = json!({ "type": "string", "enum": versions, "examples": ["2025-11-25"] });
    let session =
        json!({ "type": "string", "minLength": 1, "maxLength": 64, "examples": ["018f4f2e-7d3c-7a5b"] });
    operation
        .refuses([Error::Invoke(InvokeError::ToolsNotPrepared { waited: Duration::ZERO })])
        .parameter(Parameter::header(
            "MCP-Protocol-Version",
            "The version that the client speaks. Without it, 2025-03-26.",
            version,
        ))
        .parameter(Parameter::header(
            "Mcp-Session-Id",
            "As the answer to `initialize` had it. Nothing is kept under it.",
            session,
        ))
}

/// What is refused of a body, whatever is in it.
fn bodies() -> [Error; 4] {
    [
        Error::Body(BodyError::TooLarge { limit: 0 }),
        Error::Body(BodyError::TooSlow { limit: Duration::ZERO }),
        Error::Body(BodyError::UnknownCoding),
        Error::Body(BodyError::Undecodable(std::io::ErrorKind::InvalidData.into())),
    ]
}

fn message() -> Value {
    json!({
        "type": "object", "required": ["jsonrpc", "method"], "description": "A request or a notification.",
        "properties": {
            "jsonrpc": always("2.0", "The version of JSON-RPC."),
            "id": of(["integer", "string"], "The client's name for the request; notifications have none.", 1),
            "method": of("string", "What is to be done.", "tools/list"),
            "params": of(["object", "null"], "With what.", json!({})),
        },
    })
}
