//! What the two providers demand of a request, as far as they are known to refuse what breaks it.

use std::collections::HashSet;

use model_client::Provider;
use serde_json::Value;

use super::{KEY, Request};

/// Every rule that a request breaks, in words.
pub(super) fn violations(protocol: Provider, request: &Request) -> Vec<String> {
    let mut violations = Violations(vec![]);
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
            violations.temperature(&body["temperature"], 2.0);
            violations.tools(&body["tools"], "/function", "/parameters");
            violations.openai_messages(body["messages"].as_array().unwrap_or(&vec![]));
        }
        "anthropic" => {
            violations.unless(request.line() == "POST /v1/messages", "request line");
            violations.unless(headers("x-api-key") == Some(KEY), "x-api-key");
            violations.unless(headers("anthropic-version") == Some("2023-06-01"), "anthropic-version");
            violations.unless(headers("authorization").is_none(), "the other provider's key header");
            violations.unless(body["max_tokens"].as_u64().is_some_and(|limit| limit > 0), "max_tokens");
            violations.temperature(&body["temperature"], 1.0);
            violations.tools(&body["tools"], "", "/input_schema");
            violations.anthropic_messages(body["messages"].as_array().unwrap_or(&vec![]));
        }
        other => panic!("there are no rules of {other} here"),
    }
    violations.0
}

struct Violations(Vec<String>);

impl Violations {
    fn unless(&mut self, kept: bool, rule: &str) {
        if !kept {
            self.0.push(rule.to_owned());
        }
    }

    /// Some models take none; those that do, take it within bounds.
    fn temperature(&mut self, temperature: &Value, hottest: f64) {
        let within = temperature.as_f64().is_some_and(|degrees| (0.0..=hottest).contains(&degrees));
        self.unless(within || temperature.is_null(), "temperature");
    }

    fn tools(&mut self, tools: &Value, at: &str, schema: &str) {
        let Some(list) = tools.as_array() else {
            return self.unless(tools.is_null(), "tools are a list");
        };
        self.unless(!list.is_empty(), "a list of tools is not empty");
        for tool in list {
            let tool = tool.pointer(at).unwrap_or(&Value::Null);
            self.unless(tool["name"].as_str().is_some_and(is_name), "tool name");
            self.unless(tool["description"].is_string(), "tool description");
            let root = tool.pointer(schema).map(|schema| &schema["type"]);
            self.unless(root.is_some_and(|root| root == "object"), "tool schema");
        }
    }

    /// Every call is answered, by a message of its own, before anybody says anything else.
    fn openai_messages(&mut self, messages: &[Value]) {
        let said = messages.iter().find(|message| message["role"] != "system");
        self.unless(said.is_some_and(|first| first["role"] == "user"), "begins with the user");
        let (mut open, mut seen) = (HashSet::new(), HashSet::new());
        for message in messages {
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                self.unless(open.remove(id), "a tool message answers an open call");
                self.unless(message["content"].is_string(), "a tool message has content");
                continue;
            }
            self.unless(open.is_empty(), "every call is answered");
            let calls = message["tool_calls"].as_array();
            let may_be_silent = calls.is_some_and(|calls| !calls.is_empty());
            self.unless(message["content"].is_string() || may_be_silent, "content");
            for call in calls.into_iter().flatten() {
                let id = call["id"].as_str().unwrap_or_default();
                self.unless(!id.is_empty() && seen.insert(id), "ids are unique");
                open.insert(id);
                self.unless(call["type"] == "function", "type of a call");
                self.unless(call["function"]["name"].as_str().is_some_and(is_name), "name of a call");
                self.unless(call["function"]["arguments"].is_string(), "arguments are text");
            }
        }
        self.unless(open.is_empty(), "every call is answered");
    }

    /// Turns alternate, and the turn after one with calls begins with the answers to all of them.
    fn anthropic_messages(&mut self, turns: &[Value]) {
        self.unless(!turns.is_empty(), "messages");
        let (mut open, mut seen) = (HashSet::new(), HashSet::new());
        for (turn, role) in turns.iter().zip(["user", "assistant"].into_iter().cycle()) {
            self.unless(turn["role"] == role, "roles alternate and begin with the user");
            let blocks = turn["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            self.unless(!blocks.is_empty(), "a turn has content");
            let results = blocks.iter().take_while(|block| block["type"] == "tool_result");
            for id in results.map(|result| result["tool_use_id"].as_str().unwrap_or_default()) {
                self.unless(role == "user" && open.remove(id), "a result answers a call of the turn before");
            }
            self.unless(open.is_empty(), "every call is answered in the next turn, first thing");
            open.clear();
            for block in blocks.iter().skip_while(|block| block["type"] == "tool_result") {
                match block["type"].as_str() {
                    Some("text") => {
                        let text = block["text"].as_str().unwrap_or_default();
                        self.unless(!text.trim().is_empty(), "text is not blank");
                    }
                    Some("tool_use") => {
                        let id = block["id"].as_str().unwrap_or_default();
                        self.unless(is_name(id) && seen.insert(id), "ids are unique and plain");
                        open.insert(id);
                        self.unless(role == "assistant", "only the assistant calls");
                        self.unless(block["input"].is_object(), "input is an object");
                        self.unless(block["name"].as_str().is_some_and(is_name), "name of a call");
                    }
                    _ => self.unless(false, "type of a block"),
                }
            }
        }
        self.unless(open.is_empty(), "every call is answered");
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}
