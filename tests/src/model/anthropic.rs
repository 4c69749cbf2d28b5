//! Anthropic Messages as their server sees them: what it demands, and what it replies.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::request::Request;
use super::rules::{Violations, is_name};

/// A reply. `calls` are numbered over the whole conversation.
pub(super) fn reply<'a>(
    text: &str,
    calls: impl Iterator<Item = (usize, &'a str, &'a Value)>,
    usage: Option<(u64, u64)>,
) -> Value {
    let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
    let calls: Vec<_> = calls
        .map(|(number, tool, input)| {
            json!({ "type": "tool_use", "id": format!("call_{number}"), "name": tool, "input": input })
        })
        .collect();
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let content: Vec<_> = said.into_iter().chain(calls).collect();
    let mut reply = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "test-model-2026-01-01",
        "content": content, "stop_reason": stop,
    });
    if let Some((read, written)) = usage {
        reply["usage"] = json!({ "input_tokens": read, "output_tokens": written });
    }
    reply
}

/// Splits the reply into events: those of its beginning, and those of its end.
pub(super) fn stream(mut reply: Value) -> (String, String) {
    let read = reply["usage"]["input_tokens"].clone();
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "usage": { "input_tokens": read, "output_tokens": 1 } } });
    let (mut beginning, mut end) = (event(&start), String::new());
    for (index, block) in reply["content"].as_array_mut().into_iter().flatten().enumerate() {
        let begin = |block: &Value| {
            event(&json!({ "type": "content_block_start", "index": index, "content_block": block }))
        };
        let delta =
            |delta: Value| event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        if block["type"] == "text" {
            let text = block["text"].take();
            beginning += &begin(&json!({ "type": "text", "text": "" }));
            for word in text.as_str().unwrap_or_default().split_inclusive(' ') {
                beginning += &delta(json!({ "type": "text_delta", "text": word }));
            }
        } else {
            let input = block["input"].take();
            block["input"] = json!({});
            end += &begin(block);
            end += &delta(json!({ "type": "input_json_delta", "partial_json": input.to_string() }));
        }
    }
    let written = reply["usage"]["output_tokens"].clone();
    let stop = json!({ "type": "message_delta", "delta": { "stop_reason": reply["stop_reason"] }, "usage": { "output_tokens": written } });
    end += &event(&stop);
    (beginning, end + &event(&json!({ "type": "message_stop" })))
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// What the headers must be.
pub(super) fn check_headers(request: &Request, key: &str, violations: &mut Violations) {
    violations.unless(request.line == "POST /v1/messages", &request.line);
    violations.unless(request.header("x-api-key") == key, "x-api-key");
    violations.unless(request.header("anthropic-version") == "2023-06-01", "anthropic-version");
    violations.unless(request.header("authorization").is_empty(), "the other provider's key header");
}

/// What the parameters must be.
pub(super) fn check_parameters(body: &Value, violations: &mut Violations) {
    violations.unless(body["max_tokens"].as_u64().is_some_and(|limit| limit > 0), "max_tokens");
    violations.tools(&body["tools"], |tool| Some((tool, "input_schema")));
    let is_text = |block: &Value| {
        block["type"] == "text" && block["text"].as_str().is_some_and(|text| !text.is_empty())
    };
    let is_told = body["system"].as_array().is_some_and(|blocks| blocks.iter().all(is_text));
    violations.unless(body["system"].is_null() || is_told, "instructions are texts");
}

/// Turns alternate, and the turn after one with calls begins with the answers to all of them.
pub(super) fn check_turns(turns: &[Value], violations: &mut Violations) {
    violations.unless(!turns.is_empty(), "there are messages");
    let (mut open, mut seen) = (HashSet::new(), HashSet::new());
    for (turn, role) in turns.iter().zip(["user", "assistant"].into_iter().cycle()) {
        violations.unless(turn["role"] == role, "roles alternate and begin with the user");
        let blocks = turn["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        violations.unless(!blocks.is_empty(), "a turn has content");
        let results = blocks.iter().take_while(|block| block["type"] == "tool_result");
        for id in results.map(|result| result["tool_use_id"].as_str().unwrap_or_default()) {
            let answers = role == "user" && open.remove(id);
            violations.unless(answers, "a result answers a call of the turn before");
        }
        violations.unless(open.is_empty(), "every call is answered in the next turn, before anything else");
        for block in blocks.iter().skip_while(|block| block["type"] == "tool_result") {
            match block["type"].as_str() {
                Some("text") => {
                    let text = block["text"].as_str().unwrap_or_default();
                    violations.unless(!text.trim().is_empty(), "text is not blank");
                }
                Some("tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    violations.unless(is_name(id) && seen.insert(id), "ids of calls are unique and plain");
                    open.insert(id);
                    violations.unless(role == "assistant", "only the assistant calls");
                    violations.unless(block["input"].is_object(), "input is an object");
                    violations.unless(block["name"].as_str().is_some_and(is_name), "name of a call");
                }
                Some("image") => {
                    let source = &block["source"];
                    let is_whole = match source["type"].as_str() {
                        Some("base64") => source["media_type"].is_string() && source["data"].is_string(),
                        Some("url") => source["url"].is_string(),
                        _ => false,
                    };
                    violations.unless(role == "user" && is_whole, "an image of the user");
                }
                _ => violations.unless(false, "type of a block"),
            }
        }
    }
    violations.unless(open.is_empty(), "every call is answered");
}
