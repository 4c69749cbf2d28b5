//! JSON of the demo model: the form that a caller wants, filled with what the demo has to say.

use agent_core::words::OutputFormat;
use serde_json::{Map, Value, json};

/// Deepest nesting that is filled.
const MOST_LEVELS: u32 = 16;

/// A value of the simplest kind that the schema's types allow, with the text in every free string and the
/// last number of the text in every number. What other keywords want is not looked at.
pub(super) fn filled(format: &OutputFormat, text: &str) -> String {
    let any = json!({ "type": "object", "properties": { "answer": { "type": "string" } } });
    let schema = format.schema.as_ref().unwrap_or(&any);
    fill(schema, schema, text, MOST_LEVELS).to_string()
}

fn fill(schema: &Value, root: &Value, text: &str, levels: u32) -> Value {
    let Some(levels) = levels.checked_sub(1) else { return Value::Null };
    if let Some(value) = schema.get("const").or(schema.pointer("/enum/0")).or(schema.get("default")) {
        return value.clone();
    }
    let inside = |schema: &Value| fill(schema, root, text, levels);
    if let Some(referred) = schema.get("$ref").and_then(Value::as_str) {
        let target = referred.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, inside);
    }
    if let Some(one) = ["anyOf", "oneOf", "allOf"].iter().find_map(|all| schema.get(all)?.get(0)) {
        return inside(one);
    }
    let kind = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind));
    match kind.and_then(Value::as_str) {
        Some("string") => text.into(),
        Some("integer") => json!(last_number(text).trunc() as i64),
        Some("number") => json!(last_number(text)),
        Some("boolean") => true.into(),
        Some("array") => schema.get("items").map(inside).into_iter().collect::<Vec<_>>().into(),
        Some("null") => Value::Null,
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            properties.map(|(name, schema)| (name.clone(), inside(schema))).collect::<Map<_, _>>().into()
        }
    }
}

fn last_number(text: &str) -> f64 {
    let numbers = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    let last = numbers.rev().find_map(|number| number.trim_end_matches('.').parse().ok());
    last.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_filled_with_what_the_demo_has_to_say() {
        let schema = json!({
            "$defs": { "part": { "type": "object", "properties": { "is": { "type": "boolean" } } } },
            "type": "object",
            "properties": {
                "text": { "type": "string" }, "sum": { "type": "number" }, "kind": { "enum": ["a", "b"] },
                "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } },
                "maybe": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            },
        });
        let format = OutputFormat { name: "sum".into(), schema: Some(schema) };
        let filled: Value = serde_json::from_str(&filled(&format, "It is 42.5.")).unwrap();
        let expected = json!({
            "text": "It is 42.5.", "sum": 42.5, "kind": "a", "parts": [{ "is": true }], "maybe": 42,
        });
        assert_eq!(filled, expected);
    }
}
