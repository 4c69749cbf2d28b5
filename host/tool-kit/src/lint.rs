//! What is wrong with how a tool describes itself, before it is called: what a model will stumble over.

use serde_json::{Map, Value};

use crate::finding::{Finding, Weight};

/// Most tokens that a tool should add to every call of the model.
const MANY_TOKENS: u64 = 400;

/// Shortest description that can say what a tool does and when to use it.
const SHORT_DESCRIPTION: usize = 20;

/// Deepest that a schema is looked into.
const MOST_DEPTH: usize = 32;

/// A tool as it describes itself.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// What the model is told.
    pub description: &'a str,
    /// The schema of its arguments.
    pub input_schema: &'a Value,
    /// Whether it has a schema of its answers.
    pub has_output_schema: bool,
    /// What it adds to every call of the model.
    pub prompt_tokens: u64,
}

/// What should be better.
pub fn lint(tool: &Described<'_>) -> Vec<Finding> {
    let mut found = vec![];
    let mut say = |weight, text: String| found.push(Finding::new(weight, Some(tool.name), text));
    let length = tool.description.trim().chars().count();
    if length < SHORT_DESCRIPTION {
        say(
            Weight::Warning,
            format!(
                "its description has {length} characters: say what it does, when to use it and what it does not do"
            ),
        );
    }
    if tool.prompt_tokens > MANY_TOKENS {
        say(
            Weight::Warning,
            format!(
                "it adds {} tokens to every call of the model: a hundred are plenty, and what a refusal can teach need not stand \
                 in the description",
                tool.prompt_tokens
            ),
        );
    }
    if !tool.has_output_schema {
        say(
            Weight::Note,
            "it has no output schema: with one, an answer of another form is found here and not by a model"
                .into(),
        );
    }
    let mut places = Places { root: tool.input_schema, found: vec![] };
    places.look("", tool.input_schema, 0);
    for (weight, text) in places.found {
        say(weight, text);
    }
    found
}

struct Places<'a> {
    root: &'a Value,
    found: Vec<(Weight, String)>,
}

impl Places<'_> {
    fn look(&mut self, path: &str, schema: &Value, depth: usize) {
        let Some(keywords) = schema.as_object().filter(|_| depth < MOST_DEPTH) else { return };
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            self.members(path, keywords, properties, depth);
        }
        self.required(path, keywords);
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = keywords.get(key).filter(|inner| inner.is_object()) {
                let target = self.resolved(inner).cloned();
                self.look(&format!("{path}[]"), target.as_ref().unwrap_or(inner), depth + 1);
            }
        }
        self.bounds(path, keywords);
    }

    fn members(
        &mut self,
        path: &str,
        keywords: &Map<String, Value>,
        properties: &Map<String, Value>,
        depth: usize,
    ) {
        if !properties.is_empty() && keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
            let place = if path.is_empty() { "its arguments".to_owned() } else { path.to_owned() };
            let text = format!(
                "{place} may have members that the schema does not name, so a misspelt one is silently ignored: \
                 \"additionalProperties\": false (in Rust #[serde(deny_unknown_fields)])"
            );
            self.found.push((Weight::Warning, text));
        }
        for (name, schema) in properties {
            let own = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let target = self.resolved(schema).cloned();
            let described = |schema: &Value| {
                schema.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
            };
            if !described(schema) && !target.as_ref().is_some_and(described) {
                let text = format!(
                    "the argument {own} has no description: the model can only guess what belongs there"
                );
                self.found.push((Weight::Warning, text));
            }
            self.look(&own, target.as_ref().unwrap_or(schema), depth + 1);
        }
    }

    /// Finds names that are required and forbidden: no arguments fit such a schema, so no call gets through.
    fn required(&mut self, path: &str, keywords: &Map<String, Value>) {
        let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
        let has_patterns = keywords.contains_key("patternProperties");
        let Some(Value::Array(required)) = keywords.get("required").filter(|_| is_closed && !has_patterns)
        else {
            return;
        };
        let named = |name: &str| match keywords.get("properties").and_then(|members| members.get(name)) {
            Some(schema) => *schema != Value::Bool(false),
            None => false,
        };
        for name in required.iter().filter_map(Value::as_str).filter(|name| !named(name)) {
            let place = if path.is_empty() { "its arguments" } else { path };
            let text = format!(
                "{place} must have {name:?} (\"required\") and may not (\"additionalProperties\": false, and it is none of \
                 \"properties\"), so no call is let through: add it to \"properties\", or take it out of \"required\""
            );
            self.found.push((Weight::Fault, text));
        }
    }

    fn bounds(&mut self, path: &str, keywords: &Map<String, Value>) {
        if path.is_empty() {
            return;
        }
        let is = |kind: &str| match keywords.get("type") {
            Some(Value::String(own)) => own == kind,
            Some(Value::Array(kinds)) => kinds.iter().any(|own| own == kind),
            _ => false,
        };
        let has = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
        if is("string") && !has(&["maxLength", "enum", "const", "format", "pattern"]) {
            self.found.push((Weight::Note, format!("the text {path} has no bound: with \"maxLength\" the host refuses what is too long for the tool")));
        }
        if is("array") && !has(&["maxItems", "enum", "const"]) {
            self.found.push((Weight::Note, format!("the list {path} has no bound: with \"maxItems\" the host refuses what is too long for the tool")));
        }
        if !has(&["type", "enum", "const", "oneOf", "anyOf", "allOf", "$ref", "properties", "items"]) {
            self.found.push((
                Weight::Warning,
                format!("the argument {path} has no type: some model servers refuse such a schema"),
            ));
        }
    }

    /// The part of the schema that a reference names.
    fn resolved(&self, schema: &Value) -> Option<&Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(input_schema: &Value, description: &str) -> String {
        let tool =
            Described { name: "find", description, input_schema, has_output_schema: true, prompt_tokens: 90 };
        lint(&tool)
            .iter()
            .map(|finding| format!("{:?}: {}", finding.weight, finding.text))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn what_a_model_stumbles_over_is_named() {
        let schema = json!({"type": "object", "properties": {
            "query": {"type": "string"},
            "filters": {"type": "array", "description": "All must hold.", "items": {"$ref": "#/$defs/filter"}},
            "any": {"description": "Anything."}},
            "$defs": {"filter": {"type": "object", "properties": {"of": {"enum": ["a"]}}, "additionalProperties": false}}});
        insta::assert_snapshot!(texts(&schema, "Finds."), @r#"
        Warning: its description has 6 characters: say what it does, when to use it and what it does not do
        Warning: its arguments may have members that the schema does not name, so a misspelt one is silently ignored: "additionalProperties": false (in Rust #[serde(deny_unknown_fields)])
        Warning: the argument any has no type: some model servers refuse such a schema
        Warning: the argument filters[].of has no description: the model can only guess what belongs there
        Note: the list filters has no bound: with "maxItems" the host refuses what is too long for the tool
        Warning: the argument query has no description: the model can only guess what belongs there
        Note: the text query has no bound: with "maxLength" the host refuses what is too long for the tool
        "#);
    }

    #[test]
    fn a_tool_that_says_everything_is_left_alone() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "query": {"$ref": "#/$defs/query"}}, "$defs": {"query": {"type": "string", "description": "What to find.", "maxLength": 100}}});
        assert_eq!(texts(&schema, "Finds pages by their words. Use it for facts."), "");
    }

    #[test]
    fn what_is_required_and_forbidden_is_a_fault() {
        let of = |schema: Value| texts(&schema, "Finds pages by their words. Use it for facts.");
        let named = json!({"query": {"type": "string", "description": "What to find.", "maxLength": 9}});
        let schema = json!({"type": "object", "additionalProperties": false, "properties": named,
            "required": ["query", "qurey"]});
        insta::assert_snapshot!(of(schema), @r#"Fault: its arguments must have "qurey" ("required") and may not ("additionalProperties": false, and it is none of "properties"), so no call is let through: add it to "properties", or take it out of "required""#);
        let open = json!({"type": "object", "properties": named, "required": ["other"]});
        assert!(!of(open).contains("Fault"));
        let patterns = json!({"type": "object", "additionalProperties": false, "patternProperties": {"^o": {}},
            "required": ["other"]});
        assert!(!of(patterns).contains("Fault"));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#", "description": "Again."}}});
        assert!(texts(&schema, "Finds pages by their words.").len() < 100_000);
    }
}
