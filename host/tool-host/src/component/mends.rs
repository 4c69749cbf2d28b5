//! What a message about a tool's description or answer adds to the problem: what its author is to do.

use agent_core::nearest_word::nearest_word;
use json_schema::{MemoryBudget, Misfit};
use serde_json::Value;

use agent_core::words::{TOOL_NAME_BYTES, is_tool_name};

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
pub(crate) fn answers_no_json(error: serde_json::Error) -> Misfit {
    Misfit::Wrong(format!(
        "not JSON: {error}: return one JSON value, as a serializer writes it; a text is one in quotes"
    ))
}

/// The name that is most like one that a tool may not have: `look_up` for `lookUp` and `Look-Up`.
pub(crate) fn proposed_name(name: &str) -> Option<String> {
    let (mut proposed, mut before) = (String::new(), ' ');
    for letter in name.chars().take(TOOL_NAME_BYTES) {
        let begins_word = letter.is_ascii_uppercase() && before.is_ascii_lowercase();
        if (begins_word || !letter.is_ascii_alphanumeric()) && !proposed.ends_with('_') {
            proposed.push('_');
        }
        if letter.is_ascii_alphanumeric() {
            proposed.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    let proposed = proposed.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('_');
    is_tool_name(proposed).then(|| proposed.to_owned())
}

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// What is wrong with a schema, and the type that was meant where it names one that is none.
pub(crate) fn with_mend(problem: String, schema: &str) -> String {
    let is_of_schema = problem.starts_with("is not a JSON Schema");
    let schema = is_of_schema.then(|| MemoryBudget::default().read(schema.as_bytes()).ok()).flatten();
    let meant = schema.and_then(|schema| meant_type(&schema, &problem));
    meant.map(|meant| format!("{problem}; did you mean {meant:?}?")).unwrap_or(problem)
}

fn meant_type(part: &Value, problem: &str) -> Option<&'static str> {
    match part {
        Value::Object(members) => {
            let own = members.get("type").and_then(Value::as_str);
            let is_meant = |found: &&str| !TYPES.contains(found) && problem.contains(&format!("{found:?}"));
            own.filter(is_meant)
                .and_then(|found| nearest_word(found, &TYPES))
                .or_else(|| members.values().find_map(|part| meant_type(part, problem)))
        }
        Value::Array(parts) => parts.iter().find_map(|part| meant_type(part, problem)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_near_is_proposed() {
        for (name, proposed) in [
            ("Add", Some("add")),
            ("lookUp", Some("look_up")),
            ("Look-Up", Some("look_up")),
            ("look  up", Some("look_up")),
            ("2fast_", Some("fast")),
            ("HTTPFetch", Some("httpfetch")),
            ("", None),
            ("1", None),
            ("ß", None),
        ] {
            assert_eq!(proposed_name(name).as_deref(), proposed, "{name:?}");
        }
    }

    #[test]
    fn the_type_that_was_meant_is_named_where_one_was_misspelled() {
        let problem = r#"is not a JSON Schema: /properties/a/type is "strnig""#;
        for (schema, meant) in [
            (r#"{"properties":{"a":{"type":"strnig"}}}"#, Some("string")),
            (r#"{"anyOf":[{"type":"strnig"}]}"#, Some("string")),
            // Not what the problem is about.
            (r#"{"properties":{"a":{"type":"objekt"}}}"#, None),
            (r#"{"type":"object"}"#, None),
            ("{", None),
        ] {
            let said = with_mend(problem.into(), schema);
            let expected = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            assert_eq!(said, format!("{problem}{expected}"), "{schema}");
        }
    }
}
