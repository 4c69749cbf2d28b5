//! What is wrong with how a tool describes itself, before it is called: what a model will stumble over.

use json_schema::syntax::{Document, Keywords};
use serde_json::Value;

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
    pub name: &'a str,
    /// What the model is told.
    pub description: &'a str,
    pub input_schema: &'a Value,
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
    let mut places = Places { document: Document(tool.input_schema), found: vec![] };
    places.look("", tool.input_schema, 0);
    for (weight, text) in places.found {
        say(weight, text);
    }
    found
}

struct Places<'a> {
    document: Document<'a>,
    found: Vec<(Weight, String)>,
}

impl<'a> Places<'a> {
    fn look(&mut self, path: &str, schema: &'a Value, depth: usize) {
        if !schema.is_object() || depth >= MOST_DEPTH {
            return;
        }
        let keywords = Keywords::of(schema);
        self.members(path, keywords, depth);
        self.required(path, keywords);
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = keywords.get(key).filter(|inner| inner.is_object()) {
                self.look(&format!("{path}[]"), self.document.resolve(inner), depth + 1);
            }
        }
        self.bounds(path, keywords);
    }

    fn members(&mut self, path: &str, keywords: Keywords<'a>, depth: usize) {
        let Some(properties) = keywords.members("properties") else { return };
        if !properties.is_empty() && !keywords.is("additionalProperties", false) {
            let text = format!(
                "{} may have members that the schema does not name, so a misspelt one is silently ignored: \
                 \"additionalProperties\": false (in Rust #[serde(deny_unknown_fields)])",
                place_of(path)
            );
            self.found.push((Weight::Warning, text));
        }
        for (name, schema) in properties {
            let own = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let target = self.document.resolve(schema);
            let is_described = |part: &Value| {
                Keywords::of(part).text("description").is_some_and(|text| !text.trim().is_empty())
            };
            if !is_described(schema) && !is_described(target) {
                let text = format!(
                    "the argument {own} has no description: the model can only guess what belongs there"
                );
                self.found.push((Weight::Warning, text));
            }
            self.look(&own, target, depth + 1);
        }
    }

    /// Finds names that are required and forbidden: no arguments fit such a schema, so no call gets through.
    fn required(&mut self, path: &str, keywords: Keywords<'_>) {
        if !keywords.is("additionalProperties", false) || keywords.has(&["patternProperties"]) {
            return;
        }
        let is_allowed = |name: &str| keywords.property(name).is_some_and(|part| *part != Value::Bool(false));
        for name in keywords.required().filter(|name| !is_allowed(name)) {
            let text = format!(
                "{} must have {name:?} (\"required\") and may not (\"additionalProperties\": false, and it is none of \
                 \"properties\"), so no call is let through: add it to \"properties\", or take it out of \"required\"",
                place_of(path)
            );
            self.found.push((Weight::Fault, text));
        }
    }

    fn bounds(&mut self, path: &str, keywords: Keywords<'_>) {
        if path.is_empty() {
            return;
        }
        let types = keywords.types().unwrap_or_default();
        for (kind, what, bound, others) in [
            ("string", "text", "maxLength", &["enum", "const", "format", "pattern"][..]),
            ("array", "list", "maxItems", &["enum", "const"]),
        ] {
            if types.contains(&kind) && !keywords.has(&[bound]) && !keywords.has(others) {
                let text = format!(
                    "the {what} {path} has no bound: with \"{bound}\" the host refuses what is too long for the tool"
                );
                self.found.push((Weight::Note, text));
            }
        }
        if !keywords.has(&["type", "enum", "const", "oneOf", "anyOf", "allOf", "$ref", "properties", "items"])
        {
            let text = format!("the argument {path} has no type: some model servers refuse such a schema");
            self.found.push((Weight::Warning, text));
        }
    }
}

/// What a path is called in a sentence.
fn place_of(path: &str) -> &str {
    if path.is_empty() { "its arguments" } else { path }
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
