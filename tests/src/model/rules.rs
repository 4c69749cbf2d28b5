//! What both providers demand of a request, as far as they are known to refuse what breaks it, and what the
//! interface demands of the service's model calls.

use serde_json::Value;
use test_servers::provider_rules::{Violations, is_name};

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
    let mut violations = Violations::default();
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
            violations.openai_messages(messages);
        }
        Protocol::Anthropic => {
            anthropic::check_headers(request, demands.key, &mut violations);
            anthropic::check_parameters(body, &mut violations);
            violations.anthropic_turns(messages);
        }
    }
    violations.0
}

/// A list of tools is absent or not empty. `part` finds within a tool what describes it, and says under
/// which key its schema stands.
pub(super) fn check_tools(
    violations: &mut Violations,
    tools: &Value,
    part: impl Fn(&Value) -> Option<(&Value, &'static str)>,
) {
    let Some(list) = tools.as_array() else {
        return violations.unless(tools.is_null(), "tools are a list");
    };
    violations.unless(!list.is_empty(), "a list of tools is not empty");
    for tool in list {
        let Some((tool, schema)) = part(tool) else { return violations.unless(false, "type of a tool") };
        violations.unless(tool["name"].as_str().is_some_and(is_name), "tool name");
        violations
            .unless(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "tool description");
        violations.unless(tool[schema]["type"] == "object", "tool schema");
        for part in ["anyOf", "oneOf", "allOf", "$schema", "$id", "$defs"] {
            violations.unless(tool[schema].get(part).is_none(), part);
        }
        check_properties(violations, &tool[schema]);
    }
}

/// Every property says what it is: llama.cpp refuses one that does not, and OpenAI an array without
/// items. The whole table of what servers refuse is tested where schemas are normalised.
fn check_properties(violations: &mut Violations, schema: &Value) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let says = ["type", "enum", "anyOf"].iter().any(|key| property.get(key).is_some());
        violations.unless(says, &format!("Unrecognized schema: {name}: {property}"));
        for refused in ["$ref", "pattern", "maxLength", "minItems"] {
            violations.unless(property.get(refused).is_none(), &format!("{name}: {refused}"));
        }
        if property["type"] == "array" {
            violations.unless(property["items"].is_object(), "array schema missing items");
        }
        check_properties(violations, property);
    }
}
