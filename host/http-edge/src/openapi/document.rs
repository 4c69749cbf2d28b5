//! The whole document: the operations of what is served, and what they share.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::operation::{Operation, tags};
use super::routes::Described;
use super::schemas::Schemas;

/// The document as JSON. `more` is what is said of every route. Request bodies have at most so many bytes.
pub(super) fn document(
    described: &[Described],
    max_body_bytes: usize,
    more: fn(Operation) -> Operation,
) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    for route in described {
        let operation = more(route.operation());
        paths
            .entry(as_in_documents(&route.path))
            .or_default()
            .insert(route.method.to_owned(), with_request_id(operation.to_json()));
        schemas.extend(operation.schemas());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agent-host",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Runs agents that use tools, over HTTP.",
            "description": format!(
                "A request's text becomes a run: a language model is asked, the tools it wants are called, and the \
                 model is asked again until it answers.\n\nRequest bodies are JSON whatever their content type says, \
                 may be encoded with `gzip`, `deflate` or `br`, and have at most {max_body_bytes} bytes \
                 (`MAX_BODY_BYTES`). Of whatever is not described here no client may depend on the absence: fields \
                 are added."
            ),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "This service." }],
        "tags": tags(&paths),
        "paths": paths,
        "components": {
            "schemas": schemas.to_json(),
            "headers": headers(),
            "securitySchemes": { "bearer": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                "description": "A JSON web token, signed with `JWT_SECRET` (HS256, HS384 or HS512). `id` names the \
                                user, `tier` `premium` has the larger rate window, `role` `admin` may do more. \
                                `agent-host token` issues them.",
            } },
        },
    })
}

/// The groups that there are routes of.
fn tags(paths: &BTreeMap<String, Map<String, Value>>) -> Value {
    let is_used = |tag: &str| {
        paths.values().flat_map(Map::values).any(|operation| operation.get("tags") == Some(&json!([tag])))
    };
    let used = TAGS.iter().filter(|(tag, _)| is_used(tag));
    used.map(|(tag, description)| json!({ "name": tag, "description": description })).collect()
}

/// What routes are grouped by, in the order of the document.
pub(super) const TAGS: [(&str, &str); 9] = [
    (tags::AGENT, "Running the agent and waiting for its answer."),
    (
        tags::JOBS,
        "Runs that nobody waits for: queued, read, listed, cancelled. Everybody sees their own only.",
    ),
    (tags::OPENAI, "The agent for clients of OpenAI."),
    (tags::CACHE, "Answers that are kept."),
    (tags::TOOLS, "Which tools serve, for administrators."),
    (tags::OPERATIONS, "Everybody's runs and jobs, and how the service is, for administrators."),
    (tags::MCP, "The tools for clients that speak the Model Context Protocol."),
    (tags::HEALTH, "For orchestrators and monitors."),
    (tags::SERVICE, "The service itself."),
];

/// Names of path parameters are those of JSON fields there.
pub(super) fn as_in_documents(path: &str) -> String {
    [
        ("{job_id}", "{jobId}"),
        ("{run_id}", "{runId}"),
        ("{conversation_id}", "{conversationId}"),
        ("{wait_id}", "{waitId}"),
    ]
    .iter()
    .fold(path.to_owned(), |path, (ours, shown)| path.replace(ours, shown))
}

/// Every answer carries the request's id.
fn with_request_id(mut operation: Value) -> Value {
    if let Some(Value::Object(answers)) = operation.get_mut("responses") {
        for answer in answers.values_mut().filter_map(Value::as_object_mut) {
            let headers = answer.entry("headers").or_insert_with(|| json!({}));
            if let Value::Object(headers) = headers {
                let id = json!({ "$ref": "#/components/headers/x-request-id" });
                headers.insert("x-request-id".to_owned(), id);
            }
        }
    }
    operation
}

/// Every header that answers may have.
fn headers() -> Value {
    let number = |description: &str, example: u64| json!({ "description": description, "schema": { "type": "integer", "minimum": 0, "examples": [example] } });
    let text = |description: &str, example: &str| json!({ "description": description, "schema": { "type": "string", "examples": [example] } });
    let id = json!({
        "description": "Names the request: the caller's own `X-Request-Id`, or one that was made.", "required": true,
        "schema": { "type": "string", "maxLength": 128, "examples": ["order-4711"] },
    });
    json!({
        "x-request-id": id,
        "retry-after": number("Seconds after which it may be tried again.", 30),
        "ratelimit-policy": text("Requests that one address may make, and within how many seconds.", "100;w=900"),
        "ratelimit-limit": number("Requests that one address may make within its window.", 100),
        "ratelimit-remaining": number("Requests that are left of them.", 99),
        "ratelimit-reset": number("Seconds until the window of the address begins anew.", 900),
        "x-ratelimit-limit": number("Requests that the user may make within a window.", 10),
        "x-ratelimit-remaining": number("Requests that are left of them.", 9),
        "x-ratelimit-reset": number("When the user's window begins anew, in seconds since 1970.", 1_795_262_400),
        "www-authenticate": text("What was wrong with the token.", "Bearer realm=\"agent-host\""),
        "accept": text("Media types that a body may have.", "application/wasm, application/octet-stream"),
        "accept-encoding": text("Codings that a body may have.", "gzip, deflate, br"),
        "connection": text("The connection ends with this answer.", "close"),
        "cache-control": text("Whether a copy may be used without asking again.", "no-cache"),
        "etag": text("The version of what is answered.", "\"7\""),
        "content-location": text("Where the stream can be resumed.", "/api/agent/runs/4711/events"),
        "idempotent-replayed": text("`true` when the answer is that of an earlier request with the same key.", "true"),
        "allow": text("Methods that there are.", "POST"),
        "mcp-session-id": text("Tells the client's calls apart; it opens nothing.", "01a20636-c6f1-72b6-87e1-f20b9ef9dcab"),
        "location": text("Where the new thing is.", "/api/agent/jobs/1"),
        "upgrade": text("What the connection has to become.", "websocket"),
    })
}
