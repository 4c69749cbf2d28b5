//! `POST /mcp`: a message of the protocol, and its answer: JSON, or a stream of events when more than the
//! answer is to be sent.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use json_schema::MemoryBudget;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
use uuid::Uuid;

use super::super::error::McpRefusal;
use super::headers::{self, SESSION_ID};
use super::state::Shared;
use crate::answer;
use crate::body::Payload;
use crate::json::{self, JsonError};
use crate::middleware::idempotency::{NotKept, OnceId};
use crate::middleware::request_id::RequestId;
use crate::variant_b::auth::Caller;
use crate::variant_b::error::Error;
use mcp_server::CallId;

/// Codes of JSON-RPC for what cannot be read and for what is no message.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The code of JSON-RPC for what went wrong in the service.
const INTERNAL_ERROR: i32 = -32603;

/// An error of the protocol.
#[derive(Serialize, ToSchema)]
#[schema(as = McpError)]
pub(super) struct ErrorMessage {
    /// The version of JSON-RPC.
    #[schema(example = "2.0")]
    jsonrpc: &'static str,
    /// That of the message that is answered, if it could be read.
    #[schema(schema_with = id_schema)]
    id: Option<()>,
    /// What is wrong.
    error: MessageError,
}

/// Clients choose between numbers and texts.
fn id_schema() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Integer, Type::String, Type::Null]))
        .description(Some("That of the message that is answered, if it could be read."))
        .examples([Value::Null])
        .build()
}

/// What is wrong with a message.
#[derive(Serialize, ToSchema)]
#[schema(as = McpErrorDetail)]
struct MessageError {
    /// As JSON-RPC and the protocol have it.
    #[schema(example = -32700)]
    code: i32,
    /// The same for people.
    #[schema(example = "Parse error")]
    message: &'static str,
}

/// A call goes with its request: when the client leaves, the tool is interrupted.
pub(super) async fn send_message(
    State(mcp): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    request: Request,
) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let session = headers::session(&parts.headers)?.to_owned();
    let body = Payload::new(&parts.headers, body).read(&mcp.edge.settings).await?;
    let value = match json::parse(&body) {
        // To the API no body is an object without members, to JSON-RPC it is no JSON.
        Ok(_) if body.is_empty() => return Ok(refuse(PARSE_ERROR, "Parse error")),
        Ok(value) => value,
        Err(JsonError::Syntax { .. }) => return Ok(refuse(PARSE_ERROR, "Parse error")),
        Err(too_large @ JsonError::TooLarge(_)) => return Err(too_large.into()),
    };
    let Ok(message) = ClientJsonRpcMessage::deserialize(&value) else {
        return Ok(refuse(INVALID_REQUEST, "Invalid request"));
    };
    // The SDK reads it again, without a budget: what passes here takes it no more than twice that. It gets
    // what was read here, because it refuses half a surrogate pair and two members of one name.
    let Ok(body) = serde_json::to_vec(&value) else { return Err(McpRefusal::Unanswered.into()) };
    drop(value);
    if let Some(request) = cancelled_request(&message) {
        let user_id = caller.id().to_owned();
        mcp.under_way.cancel(&CallId { user_id, session: session.clone(), request });
    }
    let begins_session = is_initialize(&message);
    let is_keyed = parts.extensions.get::<OnceId>().is_some();
    if asks_for_tools(&message) {
        mcp.edge.variant.tool_calls.prepared().await?;
    }
    // The body is decoded by now, and nobody further in has to know the token.
    for header in [CONTENT_ENCODING, CONTENT_LENGTH, AUTHORIZATION] {
        parts.headers.remove(header);
    }
    // The SDK wants one. Whether the client's is ours has been checked, and clients of HTTP/1.0 need none.
    parts.headers.insert(HOST, HeaderValue::from_static("localhost"));
    let server = mcp.server(&caller, &request_id, &session);
    let request = http::Request::from_parts(parts, Body::from(body));
    let mut answer = readable(mcp.service(server).handle(request).await.map(Body::new))?;
    if is_keyed {
        answer = without_keeping_errors(answer).await?;
    }
    if begins_session && answer.status().is_success() {
        answer.headers_mut().insert(SESSION_ID, new_session());
    }
    Ok(answer)
}

/// Names nothing but itself, so that it can be given without being kept.
fn new_session() -> HeaderValue {
    // Hyphens and hex digits are always fit for a header.
    HeaderValue::try_from(Uuid::now_v7().to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// The request that a client wants no longer, if the message says so.
fn cancelled_request(message: &ClientJsonRpcMessage) -> Option<String> {
    let ClientJsonRpcMessage::Notification(notification) = message else { return None };
    let ClientNotification::CancelledNotification(cancelled) = &notification.notification else {
        return None;
    };
    cancelled.params.request_id.as_ref().map(ToString::to_string)
}

/// Whether the answer depends on which tools there are.
fn asks_for_tools(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(
        request.request,
        ClientRequest::ListToolsRequest(_)
            | ClientRequest::CallToolRequest(_)
            | ClientRequest::SubscriptionsListenRequest(_)
    )
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

/// The answer to a body that is no message. It is not quoted.
fn refuse(code: i32, message: &'static str) -> Response {
    let body = ErrorMessage { jsonrpc: "2.0", id: None, error: MessageError { code, message } };
    answer::json(StatusCode::BAD_REQUEST, &body)
}

/// The answer to a message under an idempotency key. An error of the service is kept no more than a status of
/// 5xx is, although its status is 200.
async fn without_keeping_errors(answer: Response) -> Result<Response, Error> {
    if !is_message(&answer) {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await.map_err(|_error| Error::Mcp(McpRefusal::Unanswered))?.to_bytes();
    let read = MemoryBudget::default().read(&body);
    if read.is_ok_and(|message| message["error"]["code"] == INTERNAL_ERROR) {
        parts.extensions.insert(NotKept);
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn is_message(answer: &Response) -> bool {
    let content_type = answer.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// The SDK's answer; what it refuses in plain text is said as it is said everywhere here.
fn readable(answer: Response) -> Result<Response, Error> {
    let status = answer.status();
    if status.is_success() || is_message(&answer) {
        return Ok(answer);
    }
    Err(Error::Mcp(match status {
        StatusCode::NOT_ACCEPTABLE => McpRefusal::NotBothAccepted,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => McpRefusal::ContentType,
        StatusCode::BAD_REQUEST => McpRefusal::Version,
        _ => McpRefusal::Unanswered,
    }))
}
