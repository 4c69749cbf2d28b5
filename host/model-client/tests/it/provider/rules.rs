//! What the two providers demand of a request, as far as they are known to refuse what breaks it.

use model_client::Provider;
use serde_json::Value;
use test_servers::provider_rules::{Violations, is_name};

use super::{KEY, Request};

/// Every rule that a request breaks, in words.
pub(super) fn violations(protocol: Provider, request: &Request) -> Vec<String> {
    let mut violations = Violations::default();
    let (body, headers) = (&request.body, |name| request.header(name));
    violations.unless(headers("content-type") == Some("application/json"), "content type");
    violations
        .unless(headers("user-agent").is_some_and(|agent| agent.starts_with("agent-host/")), "user agent");
    violations.unless(headers("x-client-request-id") == Some("req-1"), "request id");
    violations.unless(body["model"] == "test-model", "model");
    let bearer = format!("Bearer {KEY}");
    match protocol.prefix() {
        "openai" => {
            violations.unless(request.line() == "POST /v1/chat/completions", "request line");
            violations.unless(headers("authorization") == Some(&bearer), "authorization");
            violations.unless(headers("x-api-key").is_none(), "the other provider's key header");
            let limits = [&body["max_tokens"], &body["max_completion_tokens"]];
            let given = limits.iter().filter(|limit| limit.as_u64().is_some_and(|limit| limit > 0)).count();
            violations.unless(given == 1, "exactly one limit of tokens");
            check_temperature(&mut violations, &body["temperature"], 2.0);
            check_tools(&mut violations, &body["tools"], "/function", "/parameters");
            violations.openai_messages(body["messages"].as_array().unwrap_or(&vec![]));
        }
        "anthropic" => {
            violations.unless(request.line() == "POST /v1/messages", "request line");
            violations.unless(headers("x-api-key") == Some(KEY), "x-api-key");
            violations.unless(headers("anthropic-version") == Some("2023-06-01"), "anthropic-version");
            violations.unless(headers("authorization").is_none(), "the other provider's key header");
            violations.unless(body["max_tokens"].as_u64().is_some_and(|limit| limit > 0), "max_tokens");
            check_temperature(&mut violations, &body["temperature"], 1.0);
            check_tools(&mut violations, &body["tools"], "", "/input_schema");
            violations.anthropic_turns(body["messages"].as_array().unwrap_or(&vec![]));
        }
        other => panic!("there are no rules of {other} here"),
    }
    violations.0
}

/// Some models take none; those that do, take it within bounds.
fn check_temperature(violations: &mut Violations, temperature: &Value, hottest: f64) {
    let within = temperature.as_f64().is_some_and(|degrees| (0.0..=hottest).contains(&degrees));
    violations.unless(within || temperature.is_null(), "temperature");
}

fn check_tools(violations: &mut Violations, tools: &Value, at: &str, schema: &str) {
    let Some(list) = tools.as_array() else {
        return violations.unless(tools.is_null(), "tools are a list");
    };
    violations.unless(!list.is_empty(), "a list of tools is not empty");
    for tool in list {
        let tool = tool.pointer(at).unwrap_or(&Value::Null);
        violations.unless(tool["name"].as_str().is_some_and(is_name), "tool name");
        violations.unless(tool["description"].is_string(), "tool description");
        let root = tool.pointer(schema).map(|schema| &schema["type"]);
        violations.unless(root.is_some_and(|root| root == "object"), "tool schema");
    }
}
