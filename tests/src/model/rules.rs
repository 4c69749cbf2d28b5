//! What both providers demand of a request, as far as they are known to refuse what breaks it, and what the
//! interface demands of the service's model calls.

use serde_json::Value;

use super::request::Request;
use super::{Protocol, anthropic, openai};

/// What a provider demands beyond its protocol.
#[derive(Debug)]
pub(super) struct Demands<'a> {
    /// The key it gave out.
    pub(super) key: &'a str,
    /// What the client's `User-Agent` begins with.
    pub(super) client: &'static str,
    /// Whether the temperature is 0 (host/docs/interface/errors-and-limits.md#limits). Variant A has no
    /// option that could change it, Variant B has.
    pub(super) zero_temperature: bool,
}

/// Every rule that a request breaks, in words.
pub(super) fn violations(request: &Request, demands: &Demands<'_>) -> Vec<String> {
    let mut violations = Violations(Vec::new());
    let body = &request.body;
    violations.unless(request.header("content-type") == "application/json", "content type");
    violations.unless(request.header("user-agent").starts_with(demands.client), "user agent");
    violations.unless(body["model"] == "test-model", "model");
    violations.unless(
        body["temperature"].as_f64().is_some_and(|value| value == 0.0 || !demands.zero_temperature),
        "temperature",
    );
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    match request.protocol {
        Protocol::OpenAi => {
            openai::check_headers(request, demands.key, &mut violations);
            openai::check_parameters(body, &mut violations);
            openai::check_messages(messages, &mut violations);
        }
        Protocol::Anthropic => {
            anthropic::check_headers(request, demands.key, &mut violations);
            anthropic::check_parameters(body, &mut violations);
            anthropic::check_turns(messages, &mut violations);
        }
    }
    violations.0
}

/// Collects broken rules.
pub(super) struct Violations(Vec<String>);

impl Violations {
    /// Notes that a rule was broken unless it was `kept`.
    pub(super) fn unless(&mut self, kept: bool, rule: &str) {
        if !kept {
            self.0.push(rule.to_owned());
        }
    }

    /// A list of tools is absent or not empty. `part` finds within a tool what describes it, and says under
    /// which key its schema stands.
    pub(super) fn tools(&mut self, tools: &Value, part: impl Fn(&Value) -> Option<(&Value, &'static str)>) {
        let Some(list) = tools.as_array() else {
            return self.unless(tools.is_null(), "tools are a list");
        };
        self.unless(!list.is_empty(), "a list of tools is not empty");
        for tool in list {
            let Some((tool, schema)) = part(tool) else { return self.unless(false, "type of a tool") };
            self.unless(tool["name"].as_str().is_some_and(is_name), "tool name");
            self.unless(
                tool["description"].as_str().is_some_and(|text| !text.is_empty()),
                "tool description",
            );
            self.unless(tool[schema]["type"] == "object", "tool schema");
            for part in ["anyOf", "oneOf", "allOf", "$schema", "$id", "$defs"] {
                self.unless(tool[schema].get(part).is_none(), part);
            }
            self.properties(&tool[schema]);
        }
    }

    /// Every property says what it is: llama.cpp refuses one that does not, and OpenAI an array without
    /// items. The whole table of what servers refuse is tested where schemas are normalised.
    fn properties(&mut self, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let says = ["type", "enum", "anyOf"].iter().any(|key| property.get(key).is_some());
            self.unless(says, &format!("Unrecognized schema: {name}: {property}"));
            for refused in ["$ref", "pattern", "maxLength", "minItems"] {
                self.unless(property.get(refused).is_none(), &format!("{name}: {refused}"));
            }
            if property["type"] == "array" {
                self.unless(property["items"].is_object(), "array schema missing items");
            }
            self.properties(property);
        }
    }
}

/// What both providers take as a name.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}
