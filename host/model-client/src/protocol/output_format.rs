//! JSON for an answer: by the provider's own mode where it has one, else by an instruction to the model.

use std::collections::HashSet;

use agent_core::words::OutputFormat;
use json_schema::syntax::Keywords;
use serde_json::Value;

use super::Prompt;

/// Deepest nesting of a schema that is looked into; json-schema takes no deeper one.
const MOST_LEVELS: u32 = 64;

impl<'a> Prompt<'a> {
    /// The format that the provider itself is asked for.
    ///
    /// Many servers that imitate OpenAI force the grammar of the format on every reply, calls of tools
    /// included. So such a server is asked for one only where no tool may be called.
    pub(super) fn native_format(&self) -> Option<&'a OutputFormat> {
        let may_call = self.tools.is_some() && !self.forbids_calls();
        let is_taken = self.profile.output_format && (self.profile.format_beside_tools || !may_call);
        self.request.rules.output.as_ref().filter(|_| is_taken)
    }
}

/// What the model is told where the provider has no mode for it.
pub(super) fn instruction(format: &OutputFormat) -> String {
    let form = match &format.schema {
        Some(schema) => format!("JSON that matches this JSON Schema: {schema}"),
        None => "one JSON object".to_owned(),
    };
    format!("Your final answer has to be {form}\nWrite that JSON alone: no other words, no code fence.")
}

/// Whether OpenAI's strict mode takes a schema: every object lists all of its properties as required and
/// allows no others.
pub(super) fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && has_closed_objects(schema, MOST_LEVELS)
}

fn has_closed_objects(schema: &Value, levels: u32) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match schema {
        Value::Object(fields) => {
            let is_closed = fields.get("properties").and_then(Value::as_object).is_none_or(|properties| {
                let required: HashSet<&str> = Keywords::from(fields).required().collect();
                let is_required = |name: &String| required.contains(name.as_str());
                schema["additionalProperties"] == false && properties.keys().all(is_required)
            });
            is_closed && fields.values().all(|value| has_closed_objects(value, levels))
        }
        Value::Array(values) => values.iter().all(|value| has_closed_objects(value, levels)),
        _ => true,
    }
}

/// Takes away the code fence in which a model has written all of its JSON.
pub(crate) fn unfence(text: &mut String) {
    let inner = text.trim().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n'));
    if let Some((language, json)) = inner
        && language.trim().chars().all(char::is_alphanumeric)
    {
        *text = json.trim().to_owned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_closed_objects_are_strict() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
        let mut closed = point.clone();
        closed["additionalProperties"] = false.into();
        let list = |of: &Value| {
            json!({"type": "object", "properties": {"of": {"type": "array", "items": of}}, "required": ["of"],
                "additionalProperties": false})
        };
        assert!(is_strict(&closed) && is_strict(&list(&closed)));
        closed["required"] = json!([]);
        for open in [&point, &closed, &list(&point), &json!({"type": "array"})] {
            assert!(!is_strict(open), "{open}");
        }
    }

    #[test]
    fn a_fence_is_no_part_of_the_json_in_it() {
        for (text, json) in [
            ("```json\n{\"a\": 1}\n```", "{\"a\": 1}"),
            ("\n```\n[1]\n```\n", "[1]"),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("Here it is: ```json\n1\n```", "Here it is: ```json\n1\n```"),
            ("```", "```"),
        ] {
            let mut read = text.to_owned();
            unfence(&mut read);
            assert_eq!(read, json, "{text}");
        }
    }
}
