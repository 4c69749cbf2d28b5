//! JSON Schemas of strangers: read, weighed, and held against values.
//!
//! A schema is a program that the host runs, so one that could run for long is refused when it is loaded: it
//! may refer to its own parts only, never to itself, and may not be large once its references are followed.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::state::printable;

/// Longest schema, in bytes: it is part of every model call.
const BYTES: usize = 64 << 10;

/// Most parts of a schema when every reference is replaced by what it refers to. A value is held against each
/// of them once, or once for each of its own parts.
const WEIGHT: u64 = 1_000;

/// Most problems of one value that are named.
const PROBLEMS_NAMED: usize = 5;

/// Longest problem text, in bytes: it quotes what the model or the tool wrote.
const PROBLEM_BYTES: usize = 300;

/// A schema that values can be held against.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What it was read from.
    pub(crate) text: Value,
    validator: Validator,
}

impl Schema {
    /// Reads a schema, or says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("is longer than {BYTES} bytes"));
        }
        let text: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        if !text.is_object() {
            return Err("is not an object".into());
        }
        let weight = Scale { root: &text, known: HashMap::new() }.weigh(&text)?;
        if weight > WEIGHT {
            return Err(format!("has {weight} parts with its references followed; it may have {WEIGHT}"));
        }
        // The linear-time regex engine: a pattern must not be able to burn the host's time either.
        let validator = jsonschema::draft202012::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&text)
            .map_err(|error| {
                format!("is not a JSON Schema: {}", printable(&error.to_string(), PROBLEM_BYTES))
            })?;
        Ok(Self { text, validator })
    }

    /// What is wrong with a value. `whole` is what the value is called when the problem is not in a part of it.
    pub(crate) fn check(&self, value: &Value, whole: &str) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let problems: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(PROBLEMS_NAMED)
            .map(|error| {
                let place = error.instance_path().as_str();
                let place = if place.is_empty() { whole } else { place };
                format!("{place}: {}", printable(&error.to_string(), PROBLEM_BYTES))
            })
            .collect();
        Err(problems.join("; "))
    }
}

/// Counts the parts of a schema with its references followed.
struct Scale<'a> {
    root: &'a Value,
    /// What a reference weighs; nothing while it is being weighed.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> Scale<'a> {
    fn weigh(&mut self, part: &'a Value) -> Result<u64, String> {
        match part {
            Value::Object(members) => {
                let mut weight = 1_u64;
                for (key, value) in members {
                    let more = match (key.as_str(), value) {
                        // What is only defined weighs nothing until it is referred to.
                        ("$defs" | "definitions", _) => 0,
                        ("$ref", Value::String(target)) => self.weigh_target(target)?,
                        ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor", _) => {
                            return Err(format!("uses {key}, which is not allowed here"));
                        }
                        ("$id", _) if !std::ptr::eq(part, self.root) => {
                            return Err("has an $id in one of its parts, which is not allowed here".into());
                        }
                        // Values, not schemas: they are compared, not run.
                        ("enum" | "const" | "default" | "examples", _) => 1,
                        (_, value) => self.weigh(value)?,
                    };
                    weight = weight.saturating_add(more);
                }
                Ok(weight)
            }
            Value::Array(parts) => {
                let mut weight = 0_u64;
                for part in parts {
                    weight = weight.saturating_add(self.weigh(part)?);
                }
                Ok(weight)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(0),
        }
    }

    fn weigh_target(&mut self, target: &'a str) -> Result<u64, String> {
        let shown = || printable(target, PROBLEM_BYTES);
        match self.known.get(target) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err(format!("refers to itself through {:?}", shown())),
            None => {}
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(part) = found else {
            return Err(format!("refers to {:?}, which is not a part of it", shown()));
        };
        self.known.insert(target, None);
        let weight = self.weigh(part)?;
        self.known.insert(target, Some(weight));
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(schema: &Value) -> String {
        Schema::read(&schema.to_string()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn what_is_no_schema_is_refused_in_words() {
        let of = |text: &str| Schema::read(text).map(|_| ()).unwrap_err();
        insta::assert_snapshot!(of("{"), @"is not JSON: EOF while parsing an object at line 1 column 1");
        insta::assert_snapshot!(of("true"), @"is not an object");
        insta::assert_snapshot!(of(&" ".repeat(70_000)), @"is longer than 65536 bytes");
        insta::assert_snapshot!(of(r#"{"type":5}"#), @r#"is not a JSON Schema: 5 is not valid under any of the schemas listed in the 'anyOf' keyword"#);
        insta::assert_snapshot!(of(r#"{"pattern":"("}"#), @r#"is not a JSON Schema: "(" is not a "regex""#);
    }

    #[test]
    fn a_schema_cannot_make_the_host_fetch_anything() {
        for reference in ["http://example.com/schema.json", "file:///etc/passwd", "other.json", "#nowhere"] {
            let text = problem(&json!({"properties": {"a": {"$ref": reference}}}));
            assert_eq!(text, format!("refers to {reference:?}, which is not a part of it"));
        }
    }

    #[test]
    fn a_schema_that_doubles_at_every_step_is_refused() {
        // 1.3 KB that would take the validator minutes and gigabytes.
        let mut parts = serde_json::Map::new();
        for n in 0..20 {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            parts.insert(format!("a{n}"), json!({"anyOf": [next, next]}));
        }
        parts.insert("a20".into(), json!(false));
        let text = problem(&json!({"$defs": parts, "$ref": "#/$defs/a0"}));
        assert!(text.contains("parts with its references followed; it may have 1000"), "{text}");
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_refused() {
        let tree = json!({"$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}},
            "$ref": "#/$defs/tree"});
        assert_eq!(problem(&tree), r##"refers to itself through "#/$defs/tree""##);
        assert_eq!(problem(&json!({"items": {"$ref": "#"}})), r##"refers to itself through "#""##);
        assert!(problem(&json!({"items": {"$dynamicRef": "#x"}})).contains("$dynamicRef"));
        assert!(problem(&json!({"items": {"$id": "x"}})).contains("$id"));
    }

    #[test]
    fn parts_may_be_shared_and_values_are_held_against_them() {
        let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "$defs": {"n": {"type": "integer"}},
            "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/n"}}});
        let schema = Schema::read(&schema.to_string()).unwrap();
        assert_eq!(schema.check(&json!({"a": 1, "b": 2}), "it"), Ok(()));
        let text = schema.check(&json!({"a": "1", "b": 2}), "it").unwrap_err();
        assert_eq!(text, r#"/a: "1" is not of type "integer""#);
        assert_eq!(schema.check(&json!(5), "it").unwrap_err(), r#"it: 5 is not of type "object""#);
    }
}
