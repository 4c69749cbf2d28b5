//! What a valid request body is. All issues are collected, in the order of the fields here
//! (host/docs/interface/decisions-http.md#validation); keys that nobody asked for are ignored. What the
//! issues look like is in `validation_issue`.

#[cfg(test)]
mod tests;

use agent_core::words::{LONGEST_CONVERSATION_ID, MOST_CHOSEN_TOOLS, Message, Options, is_conversation_id};
use serde_json::{Map, Value};

use super::error::Error;
use super::validation_issue::{CHOSEN_TOOLS, CONVERSATION_ID, Issue, Issues, Location, Path, WEBHOOK_URL};
use crate::body::Payload;
use crate::dependencies::Settings;
use crate::{history, json};

/// Most characters of a query; the fewest are 1 (host/docs/interface/errors-and-limits.md#limits).
pub(super) const MOST_CHARACTERS: u32 = 1_000;

/// Most characters of an address.
pub(super) const LONGEST_URL: u32 = 2_048;

/// host/docs/interface/errors-and-limits.md#limits.
pub(super) const MAX_TOKENS: [u32; 2] = [100, 10_000];

/// host/docs/interface/errors-and-limits.md#limits.
pub(super) const TEMPERATURE: [u32; 2] = [0, 2];

/// The options that only `POST /api/agent` has.
pub(super) const OF_A_REQUEST: [&str; 4] = ["maxTokens", "temperature", "tools", "history"];

/// The option that `POST /api/agent` and `POST /api/agent/async` have.
pub(super) const OF_A_CONVERSATION: &str = "conversationId";

/// The priority that the dedicated cluster is for (host/docs/interface/endpoints.md#gateway-request).
pub(super) const HIGH: &str = "high";

/// The body of `POST /api/agent`.
#[derive(Debug, PartialEq)]
pub(super) struct AgentRequest {
    pub(super) query: String,
    pub(super) options: Options,
    /// The kept conversation that the run is part of.
    pub(super) conversation_id: Option<String>,
}

/// The body of `POST /api/agent/async`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JobRequest {
    pub(super) query: String,
    pub(super) webhook_url: Option<String>,
    /// The kept conversation that the run is part of.
    pub(super) conversation_id: Option<String>,
}

/// The body of `POST /api/gateway`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GatewayRequest {
    pub(super) query: String,
    /// Any other value is handled locally (host/docs/interface/endpoints.md#gateway-request), of whatever
    /// kind it is.
    pub(super) is_urgent: bool,
}

/// Reads a body within its limits, as JSON.
pub(super) async fn read_json(payload: Payload, settings: &Settings) -> Result<Value, Error> {
    Ok(json::parse(&payload.read(settings).await?)?)
}

/// A query, and the caller's wishes for the model.
pub(super) fn read_agent_request(body: Value) -> Result<AgentRequest, Issues> {
    let mut fields = as_object(body, &[])?;
    let mut issues = Issues::default();
    let query = issues.check(take_query(&mut fields, Some(MOST_CHARACTERS)));
    let conversation_id = read_conversation_id(fields.get("options"));
    let options = read_options(fields.remove("options"), &mut issues);
    let conversation_id = issues.check(conversation_id).flatten();
    match query {
        Some(query) if issues.0.is_empty() => Ok(AgentRequest { query, options, conversation_id }),
        Some(_) | None => Err(issues),
    }
}

/// A query alone, of the same length.
pub(super) fn read_query(body: Value) -> Result<String, Issues> {
    let mut fields = as_object(body, &[])?;
    let mut issues = Issues::default();
    let query = issues.check(take_query(&mut fields, Some(MOST_CHARACTERS)));
    refuse_options(fields.get("options"), &mut issues);
    refuse_conversation(fields.get("options"), &mut issues);
    query.filter(|_| issues.0.is_empty()).ok_or(issues)
}

/// A query of any length but none (host/docs/interface/decisions-runs.md#jobs), which the body's limit
/// bounds, and where the end of its job is to be sent.
pub(super) fn read_job_request(body: Value) -> Result<JobRequest, Issues> {
    let mut fields = as_object(body, &[])?;
    let mut issues = Issues::default();
    let query = issues.check(take_query(&mut fields, None));
    let webhook_url = issues.check(take_webhook_url(&mut fields));
    // Of the options of a run a job has this one only.
    let conversation_id = issues.check(read_conversation_id(fields.get("options")));
    refuse_options(fields.get("options"), &mut issues);
    match (query, webhook_url, conversation_id) {
        (Some(query), Some(webhook_url), Some(conversation_id)) if issues.0.is_empty() => {
            Ok(JobRequest { query, webhook_url, conversation_id })
        }
        _ => Err(issues),
    }
}

/// A query and how urgent it is.
pub(super) fn read_gateway_request(body: Value) -> Result<GatewayRequest, Issues> {
    let is_urgent = body.get("priority").is_some_and(|priority| priority == HIGH);
    Ok(GatewayRequest { query: read_query(body)?, is_urgent })
}

fn as_object(value: Value, path: Path) -> Result<Map<String, Value>, Issue> {
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(Issue::wrong_type("object", Some(&other), path)),
    }
}

/// Characters are Unicode code points.
fn take_query(fields: &mut Map<String, Value>, most: Option<u32>) -> Result<String, Issue> {
    const PATH: Path = &["query"];
    match fields.remove("query") {
        Some(Value::String(query)) => match most {
            _ if query.is_empty() => Err(Issue::too_short(1, PATH)),
            Some(most) if query.chars().count() > most as usize => Err(Issue::too_long(most, PATH)),
            Some(_) | None => Ok(query),
        },
        other => Err(Issue::wrong_type("string", other.as_ref(), PATH)),
    }
}

/// Which addresses may be sent to is for the sender of webhooks to know.
fn take_webhook_url(fields: &mut Map<String, Value>) -> Result<Option<String>, Issue> {
    match fields.remove("webhookUrl") {
        None => Ok(None),
        Some(Value::String(url)) if url.chars().count() > LONGEST_URL as usize => {
            Err(Issue::too_long(LONGEST_URL, WEBHOOK_URL))
        }
        Some(Value::String(url)) => Ok(Some(url)),
        Some(other) => Err(Issue::wrong_type("string", Some(&other), WEBHOOK_URL)),
    }
}

/// Refuses the wishes for a run that only `POST /api/agent` has: a run without a restriction that its caller
/// asked for is not what the caller wants. Keys that no route knows are ignored.
fn refuse_options(options: Option<&Value>, issues: &mut Issues) {
    let given = OF_A_REQUEST.into_iter().filter(|name| is_given(options, name));
    issues.0.extend(given.map(Issue::option_of_a_request));
}

/// Refuses a conversation where there is none: the run would not know what was said in it, nor be kept.
fn refuse_conversation(options: Option<&Value>, issues: &mut Issues) {
    if is_given(options, OF_A_CONVERSATION) {
        issues.0.push(Issue::option_of_a_conversation(OF_A_CONVERSATION));
    }
}

fn is_given(options: Option<&Value>, name: &str) -> bool {
    options.is_some_and(|options| options.get(name).is_some())
}

fn read_options(options: Option<Value>, issues: &mut Issues) -> Options {
    let Some(options) = options else { return Options::default() };
    let Some(fields) = issues.check(as_object(options, &["options"])) else { return Options::default() };
    let max_tokens = read_number(&fields, "maxTokens", MAX_TOKENS, &["options", "maxTokens"]);
    let temperature = read_number(&fields, "temperature", TEMPERATURE, &["options", "temperature"]);
    Options {
        // A fraction of a token is none; the range fits into the type.
        max_tokens: issues.check(max_tokens).flatten().map(|number| number as u32),
        temperature: issues.check(temperature).flatten(),
        tools: fields.get("tools").and_then(|tools| read_tools(tools, issues)),
        history: fields.get("history").and_then(|history| read_history(history, issues)).unwrap_or_default(),
        functions: vec![],
    }
}

/// What else there may be of the options is looked at by others.
fn read_conversation_id(options: Option<&Value>) -> Result<Option<String>, Issue> {
    let Some(id) = options.and_then(|options| options.get(OF_A_CONVERSATION)) else { return Ok(None) };
    match id.as_str() {
        Some(id) if is_conversation_id(id) => Ok(Some(id.to_owned())),
        Some("") => Err(Issue::too_short(1, CONVERSATION_ID)),
        Some(id) if id.chars().count() > LONGEST_CONVERSATION_ID => {
            Err(Issue::too_long(LONGEST_CONVERSATION_ID as u32, CONVERSATION_ID))
        }
        Some(_) => Err(Issue::custom("Invalid conversation id", CONVERSATION_ID)),
        None => Err(Issue::wrong_type("string", Some(id), CONVERSATION_ID)),
    }
}

/// Names of tools. Which ones the caller has is for the agent to know.
fn read_tools(tools: &Value, issues: &mut Issues) -> Option<Vec<String>> {
    let names = tools.as_array().ok_or_else(|| Issue::wrong_type("array", Some(tools), CHOSEN_TOOLS));
    let names = issues.check(names)?;
    if names.len() > MOST_CHOSEN_TOOLS {
        // Without an issue for each element, of which there may be any number.
        issues.0.push(Issue::too_many(MOST_CHOSEN_TOOLS as u32, CHOSEN_TOOLS));
        return None;
    }
    let names = names.iter().enumerate().filter_map(|(index, name)| {
        let wrong = || Issue::wrong_type("string", Some(name), Location::element(CHOSEN_TOOLS, index));
        issues.check(name.as_str().map(str::to_owned).ok_or_else(wrong))
    });
    Some(names.collect())
}

fn read_history(history: &Value, issues: &mut Issues) -> Option<Vec<Message>> {
    history::read(history).map_err(|wrong| issues.0.extend(wrong.iter().map(Issue::of_history))).ok()
}

fn read_number(
    fields: &Map<String, Value>,
    name: &str,
    range: [u32; 2],
    path: Path,
) -> Result<Option<f64>, Issue> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let number = value.as_f64().ok_or_else(|| Issue::wrong_type("number", Some(value), path))?;
    Issue::out_of_range(number, range, path).map_or(Ok(Some(number)), Err)
}
