//! A tool as its component describes it, checked and made ready to be called.

use std::time::Duration;

use agent_core::catalog::ToolSpec;
use serde_json::Value;

use crate::bindings::exports::agent::tool::tool::ToolDef;
use crate::error::LoadError;
use crate::schema::Schema;
use crate::state::printable;

/// Longest description, in bytes: it is part of every model call.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// Longest tool name, in bytes; providers allow 64.
const NAME_BYTES: usize = 63;

/// One tool of a component.
#[derive(Debug)]
pub(crate) struct Definition {
    /// What the model is told.
    pub(crate) spec: ToolSpec,
    /// What the tool says of itself, key and value.
    pub(crate) hints: Vec<(String, String)>,
    /// What the tool itself asks to be stopped after.
    pub(crate) timeout: Option<Duration>,
    arguments: Schema,
    output: Option<Schema>,
}

impl Definition {
    /// Checks what a component said.
    pub(crate) fn new(described: ToolDef) -> Result<Self, LoadError> {
        let name = described.name.clone();
        Self::check(described)
            .map_err(|problem| LoadError::Definition { tool: printable(&name, NAME_BYTES), problem })
    }

    fn check(described: ToolDef) -> Result<Self, String> {
        check_name(&described.name)?;
        if described.description.trim().is_empty() {
            return Err("it has no description".into());
        }
        if described.description.len() > DESCRIPTION_BYTES {
            return Err(format!("its description is longer than {DESCRIPTION_BYTES} bytes"));
        }
        let arguments =
            Schema::read(&described.input_schema).map_err(|problem| format!("its input schema {problem}"))?;
        if arguments.text.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its input schema is not of type object".into());
        }
        let output = match &described.output_schema {
            Some(text) => Some(Schema::read(text).map_err(|problem| format!("its output schema {problem}"))?),
            None => None,
        };
        let timeout = read_timeout(&described.hints)?;
        let spec = ToolSpec {
            name: described.name,
            description: described.description,
            input_schema: arguments.text.clone(),
        };
        Ok(Self { spec, hints: described.hints, timeout, arguments, output })
    }

    /// What is wrong with a call's arguments, for the model.
    pub(crate) fn check_arguments(&self, arguments: &Value) -> Result<(), String> {
        self.arguments.check(arguments, "the arguments")
    }

    /// What is wrong with a returned value, for the operator.
    pub(crate) fn check_output(&self, text: &str) -> Result<(), String> {
        let Some(schema) = &self.output else {
            return match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("not JSON: {error}")),
            };
        };
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        schema.check(&value, "the output")
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let goes_on_well = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if starts_well && goes_on_well && name.len() <= NAME_BYTES {
        return Ok(());
    }
    Err("its name must be a letter a-z and then up to 62 of a-z, 0-9 and '_'".into())
}

fn read_timeout(hints: &[(String, String)]) -> Result<Option<Duration>, String> {
    let Some((_, text)) = hints.iter().find(|(key, _)| key == "timeout-ms") else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        Ok(0) | Err(_) => Err("its hint timeout-ms is not a whole number above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described() -> ToolDef {
        ToolDef {
            name: "add".into(),
            description: "Adds two numbers.".into(),
            input_schema: r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},
                "required":["a","b"],"additionalProperties":false}"#
                .into(),
            output_schema: Some(r#"{"type":"object","required":["sum"]}"#.into()),
            hints: vec![],
        }
    }

    fn problem(change: impl FnOnce(&mut ToolDef)) -> String {
        let mut described = described();
        change(&mut described);
        Definition::new(described).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_description_is_refused_in_words() {
        let wrongly = r#"describes its tool "add" wrongly: "#;
        let of = |change: fn(&mut ToolDef)| problem(change).replace(wrongly, "");
        insta::assert_snapshot!(of(|d| d.description = " ".into()), @"it has no description");
        insta::assert_snapshot!(of(|d| d.description = "x".repeat(20_000)), @"its description is longer than 4096 bytes");
        insta::assert_snapshot!(of(|d| d.input_schema = r#"{"type":"array"}"#.into()), @"its input schema is not of type object");
        insta::assert_snapshot!(of(|d| d.output_schema = Some(r#"{"type":5}"#.into())), @r#"its output schema is not a JSON Schema: 5 is not valid under any of the schemas listed in the 'anyOf' keyword"#);
        insta::assert_snapshot!(of(|d| d.hints = vec![("timeout-ms".into(), "soon".into())]), @"its hint timeout-ms is not a whole number above 0");
        for name in ["", "Add", "1st", "a-b", "a b", &"x".repeat(64), "añ", "a\n"] {
            assert!(problem(|d| d.name = name.into()).contains("its name must be a letter"), "{name:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_named_for_the_model() {
        let tool = Definition::new(described()).unwrap();
        assert_eq!(tool.check_arguments(&json!({"a": 1, "b": 2})), Ok(()));
        let text = tool.check_arguments(&json!({"a": "1", "c": "x".repeat(1000)})).unwrap_err();
        assert!(text.contains(r#"/a: "1" is not of type "number""#), "{text}");
        assert!(text.contains(r#""b" is a required property"#), "{text}");
        assert!(text.contains("'c' was unexpected") && text.len() < 1000, "{text}");
    }

    #[test]
    fn outputs_are_held_to_the_schema_or_at_least_to_json() {
        let tool = Definition::new(described()).unwrap();
        assert_eq!(tool.check_output(r#"{"sum":3}"#), Ok(()));
        assert!(tool.check_output("{}").is_err());
        assert!(tool.check_output("").unwrap_err().starts_with("not JSON"));
        let free = Definition::new(ToolDef { output_schema: None, ..described() }).unwrap();
        assert_eq!(free.check_output("[1]"), Ok(()));
        assert!(free.check_output("[1").is_err());
        assert!(free.check_output("1 2").is_err());
    }
}
