//! Anthropic Messages as their server sees them: what it demands, and what it replies.

use serde_json::{Value, json};
use test_servers::provider_rules::Violations;

use super::request::Request;
use super::rules::check_tools;

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
    check_tools(violations, &body["tools"], |tool| Some((tool, "input_schema")));
    let is_text = |block: &Value| {
        block["type"] == "text" && block["text"].as_str().is_some_and(|text| !text.is_empty())
    };
    let is_told = body["system"].as_array().is_some_and(|blocks| blocks.iter().all(is_text));
    violations.unless(body["system"].is_null() || is_told, "instructions are texts");
}
