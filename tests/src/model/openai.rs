//! OpenAI chat completions as their server sees them: what it demands, and what it replies.

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
    let calls: Vec<_> = calls
        .map(|(number, tool, arguments)| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            let function = json!({ "name": tool, "arguments": arguments });
            json!({ "id": format!("call_{number}"), "type": "function", "function": function })
        })
        .collect();
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut reply = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "test-model-2026-01-01",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
    });
    if let Some((read, written)) = usage {
        reply["usage"] =
            json!({ "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written });
    }
    reply
}

/// The reply as events: those of its beginning, and those of its end.
pub(super) fn stream(mut reply: Value) -> (String, String) {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        event(
            &json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], "usage": null }),
        )
    };
    let mut choice = reply["choices"][0].take();
    let mut message = choice["message"].take();
    let text = message["content"].as_str().unwrap_or_default().to_owned();
    let mut beginning = chunk(json!({ "role": "assistant", "content": "" }), Value::Null);
    for word in text.split_inclusive(' ') {
        beginning += &chunk(json!({ "content": word }), Value::Null);
    }
    let mut end = String::new();
    for (index, call) in message["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
        call["index"] = index.into();
        let arguments = call["function"]["arguments"].take();
        call["function"]["arguments"] = "".into();
        end += &chunk(json!({ "tool_calls": [call] }), Value::Null);
        let rest = json!({ "index": index, "function": { "arguments": arguments } });
        end += &chunk(json!({ "tool_calls": [rest] }), Value::Null);
    }
    end += &chunk(json!({}), choice["finish_reason"].take());
    if reply["usage"].is_object() {
        end += &event(&json!({ "choices": [], "usage": reply["usage"] }));
    }
    (beginning, end + "data: [DONE]\n\n")
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// What the headers must be.
pub(super) fn check_headers(request: &Request, key: &str, violations: &mut Violations) {
    violations.unless(request.line == "POST /v1/chat/completions", &request.line);
    violations.unless(request.header("authorization") == format!("Bearer {key}"), "authorization");
    violations.unless(request.header("x-api-key").is_empty(), "the other provider's key header");
}

/// What the parameters must be.
pub(super) fn check_parameters(body: &Value, violations: &mut Violations) {
    let limits = [&body["max_tokens"], &body["max_completion_tokens"]];
    let given = limits.iter().filter(|limit| limit.as_u64().is_some_and(|limit| limit > 0)).count();
    violations.unless(given == 1, "exactly one limit of tokens");
    let is_streamed = body["stream"] == true;
    violations
        .unless(body["stream_options"]["include_usage"] == is_streamed || !is_streamed, "usage of a stream");
    check_tools(violations, &body["tools"], |tool| {
        let function = (tool["type"] == "function").then_some(&tool["function"])?;
        Some((function, "parameters"))
    });
}
