//! What is wrong with a request of a client of OpenAI, and the form in which such clients read errors:
//! `{"error": {"message", "type", "param", "code"}}`.

use std::fmt;

use http::StatusCode;
use http::header::UPGRADE;
use serde_json::{Value, json};

use crate::openapi::{Refused, RefusedBody};

/// Most characters that are quoted of what a client sent.
const MOST_QUOTED: usize = 64;

/// Most functions that are named.
const MOST_NAMED: usize = 8;

/// Something in a request that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    message: String,
    /// Where it is, as OpenAI writes it: `messages[0].content`.
    param: Option<String>,
    code: &'static str,
}

/// For the log: what and where, and nothing of what the client wrote.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.param {
            Some(param) => write!(f, "the request is refused: {} in `{param}`", self.code),
            None => write!(f, "the request is refused: {}", self.code),
        }
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let (status, body) = problem.rendered();
        let upgrade = (status == StatusCode::UPGRADE_REQUIRED).then_some(UPGRADE);
        Self { status, body: RefusedBody::OpenAi(body), headers: upgrade.into_iter().collect() }
    }
}

impl Problem {
    fn bad(code: &'static str, param: impl Into<String>, message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message, param: Some(param.into()), code }
    }

    fn not_found(code: &'static str, param: &str, message: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, ..Self::bad(code, param, message) }
    }

    /// The body is no object.
    pub fn no_object() -> Self {
        let message = "The request body must be a JSON object.".to_owned();
        Self { status: StatusCode::BAD_REQUEST, message, param: None, code: "invalid_type" }
    }

    pub fn missing(param: &str) -> Self {
        Self::bad("missing_required_parameter", param, format!("Missing required parameter: '{param}'."))
    }

    pub fn wrong_type(param: impl Into<String>, expected: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid type for '{param}': expected {expected}.");
        Self::bad("invalid_type", param, message)
    }

    pub fn invalid(param: impl Into<String>, why: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid value for '{param}': {why}");
        Self::bad("invalid_value", param, message)
    }

    /// To ignore it would be to lie.
    pub fn unsupported_parameter(param: &str, why: &str) -> Self {
        Self::bad("unsupported_parameter", param, format!("Unsupported parameter: '{param}'. {why}"))
    }

    /// A value of a parameter is not supported.
    pub fn unsupported_value(param: impl Into<String>, why: &str) -> Self {
        let param = param.into();
        let message = format!("Unsupported value for '{param}'. {why}");
        Self::bad("unsupported_value", param, message)
    }

    pub fn unknown_model(id: &str) -> Self {
        let message = format!("The model '{}' does not exist. The agent is the model 'agent'.", quoted(id));
        Self::not_found("model_not_found", "model", message)
    }

    /// Two parameters of which one only can be there.
    pub fn exclusive(param: &str, other: &str) -> Self {
        let message = format!("Only one of '{param}' and '{other}' can be there.");
        Self::bad("mutually_exclusive_parameters", param, message)
    }

    /// There is nothing to go on from.
    pub fn unknown_previous_response(id: &str) -> Self {
        let message = format!("Previous response with id '{}' not found.", quoted(id));
        Self::bad("previous_response_not_found", "previous_response_id", message)
    }

    pub fn unknown_response(id: &str) -> Self {
        let message = format!("Response with id '{}' not found.", quoted(id));
        Self::not_found("response_not_found", "response_id", message)
    }

    /// Newer responses have taken its place, or it was deleted; its job is there.
    pub fn response_of_job(id: &str, job_id: &str) -> Self {
        let (id, job_id) = (quoted(id), quoted(job_id));
        let message = format!(
            "Response with id '{id}' is not kept any more. What came of it is the result of its job: GET /api/agent/jobs/{job_id}."
        );
        Self::not_found("response_not_found", "response_id", message)
    }

    /// The conversation of the request's path.
    pub fn unknown_conversation(id: &str) -> Self {
        Self::no_conversation("conversation_id", id)
    }

    /// The conversation that a request for a response names.
    pub fn unknown_conversation_of_response(id: &str) -> Self {
        Self::no_conversation("conversation", id)
    }

    fn no_conversation(param: &str, id: &str) -> Self {
        let message = format!("Conversation with id '{}' not found.", quoted(id));
        Self::not_found("conversation_not_found", param, message)
    }

    /// The conversation has no such item.
    pub fn unknown_conversation_item(id: &str) -> Self {
        let message = format!("Item with id '{}' not found in the conversation.", quoted(id));
        Self::not_found("item_not_found", "item_id", message)
    }

    /// There is no such item, or it is somebody else's.
    pub fn unknown_item(id: &str) -> Self {
        let message = format!(
            "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
             set to true, or remove this item from your input.",
            quoted(id)
        );
        Self::not_found("item_not_found", "input", message)
    }

    /// The answer to an approval request was not taken. `param` is where it stands.
    pub fn approval_not_taken(status: StatusCode, code: &'static str, param: &str, message: String) -> Self {
        Self { status, message, param: Some(param.to_owned()), code }
    }

    pub fn duplicate_item(id: &str) -> Self {
        let why = "Remove duplicate items from your input and try again.";
        Self::bad("invalid_value", "input", format!("Duplicate item found with id '{}'. {why}", quoted(id)))
    }

    /// A limit ended a summary, or the model wrote none.
    pub fn unfinished_summary(reason: &str) -> Self {
        let message = format!(
            "The model did not finish the summary ({reason}): send less, or have the deployment raise \
             TOKEN_BUDGET_PER_REQUEST."
        );
        let (status, code) = (StatusCode::UNPROCESSABLE_ENTITY, "summary_not_finished");
        Self { status, message, param: None, code }
    }

    /// The model's provider refuses functions of the client.
    pub fn refused_functions(names: &[String]) -> Self {
        let shown = names.iter().take(MOST_NAMED).map(|name| format!("'{}'", quoted(name)));
        let mut named = shown.collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = names.len().checked_sub(MOST_NAMED) {
            named = format!("{named} and {more} more");
        }
        let message = format!("The provider of the model refuses the functions: {named}.");
        Self::bad("invalid_function_parameters", "tools", message)
    }

    /// The conversation, with tools and instructions, is longer than the model's context.
    pub fn too_long() -> Self {
        let message = "The conversation is longer than the model takes: send less of it.".to_owned();
        let code = "context_length_exceeded";
        Self { status: StatusCode::BAD_REQUEST, message, param: None, code }
    }

    /// No WebSocket can be opened, or gone on with.
    pub fn socket(status: StatusCode, code: &'static str, message: &str) -> Self {
        Self { status, message: message.to_owned(), param: None, code }
    }

    /// There is no such approval request, or it is somebody else's.
    pub fn unknown_approval(id: &str) -> Self {
        let message = format!(
            "Approval request with id '{}' not found. Send the id of a request that this user was shown, as it is.",
            quoted(id)
        );
        Self::not_found("item_not_found", "input", message)
    }

    pub fn unknown_path() -> Self {
        let message = "There is no such path: /v1/models, /v1/chat/completions, /v1/chat, /v1/responses and /v1/conversations are served.";
        Self { status: StatusCode::NOT_FOUND, message: message.to_owned(), param: None, code: "unknown_url" }
    }

    pub fn wrong_method() -> Self {
        let (status, message) = (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed".to_owned());
        Self { status, message, param: None, code: "method_not_supported" }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What the client reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn rendered(&self) -> (StatusCode, Value) {
        (self.status, self.body())
    }

    pub fn body(&self) -> Value {
        body(self.status, &self.message, self.param.as_deref(), Some(self.code))
    }
}

/// The beginning of what a client sent.
fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(MOST_QUOTED).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}

/// An error in OpenAI's form.
pub fn body(status: StatusCode, message: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": type_of(status), "param": param, "code": code } })
}

/// The code of an error that has none of its own.
pub fn code_of(status: StatusCode) -> Option<&'static str> {
    Some(match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
        StatusCode::UNAUTHORIZED => "invalid_api_key",
        StatusCode::INTERNAL_SERVER_ERROR => "server_error",
        StatusCode::SERVICE_UNAVAILABLE => "service_unavailable",
        _ => return None,
    })
}

fn type_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::FORBIDDEN => "permission_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}
