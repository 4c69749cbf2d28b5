//! What a case expects of an answer, and how an answer differs from it.

use agent_core::words::ToolOutcome;
use json_schema::Exact;
use regex::Regex;
use serde_json::Value;

/// Most bytes of a text that a difference quotes.
const QUOTED_BYTES: usize = 400;

/// The keys of `expect`.
const KEYS: &str = "output, json, contains, matches and error";

/// What an answer should be. What is absent is not looked at, but for `error`: without it the call has to
/// succeed.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// The whole text, or the text that the answer is as a JSON string.
    pub output: Option<String>,
    /// The whole answer as JSON; numbers are equal when their values are.
    pub json: Option<Value>,
    pub contains: Vec<String>,
    /// Pattern that fits somewhere in it.
    pub matches: Option<Regex>,
    /// The code of the tool's own failure (`not-found`), or the outcome of the host's (`invalid-arguments`).
    pub error: Option<String>,
}

/// An answer, as far as it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// How the call ended.
    pub outcome: ToolOutcome,
    /// The code of the tool's own failure.
    pub code: Option<&'a str>,
    /// What the model would read.
    pub content: &'a str,
}

impl Answer<'_> {
    /// The word for how it failed; absent when it did not.
    pub fn error(&self) -> Option<String> {
        match (self.outcome, self.code) {
            (ToolOutcome::Ok, _) => None,
            (ToolOutcome::Failed, Some(code)) => Some(code.to_owned()),
            (outcome, _) => Some(outcome.as_str().replace('_', "-")),
        }
    }
}

impl Expectation {
    /// Reads `expect` of a case.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let Value::Object(members) = value else {
            return Err(format!("it should be a table with {KEYS}"));
        };
        let mut expectation = Self::default();
        for (key, value) in members {
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("{key} should be a text"));
            match key.as_str() {
                "output" => expectation.output = Some(text()?),
                "json" => expectation.json = Some(value.clone()),
                "contains" => expectation.contains = texts(key, value)?,
                "error" => expectation.error = Some(text()?.replace('_', "-")),
                "matches" => {
                    let pattern = Regex::new(&text()?).map_err(|error| {
                        let reason = error.to_string();
                        format!("matches is no pattern: {}", reason.lines().last().unwrap_or_default().trim())
                    })?;
                    expectation.matches = Some(pattern);
                }
                _ => return Err(format!("unknown key {key:?}; it may have {KEYS}")),
            }
        }
        if members.is_empty() {
            return Err(format!("it is empty; it may have {KEYS}"));
        }
        Ok(expectation)
    }

    /// How the answer differs, a sentence each. None when it is what was expected.
    pub fn differences(&self, answer: &Answer<'_>) -> Vec<String> {
        let mut differences = vec![];
        let content = answer.content;
        match (&self.error, answer.error()) {
            (None, Some(found)) => differences.push(format!("failed with {found}: {}", quoted(content))),
            (Some(expected), None) => {
                differences.push(format!("should fail with {expected}, and answered {}", quoted(content)));
            }
            (Some(expected), Some(found)) if *expected != found => {
                differences.push(format!(
                    "should fail with {expected}, and failed with {found}: {}",
                    quoted(content)
                ));
            }
            _ => {}
        }
        if !differences.is_empty() {
            return differences;
        }
        let read: Option<Value> = serde_json::from_str(content).ok();
        if let Some(expected) = &self.output {
            let is_string = matches!(&read, Some(Value::String(text)) if text == expected);
            if content != expected && !is_string {
                differences.push(format!(
                    "should answer {}, and answered {}",
                    quoted(expected),
                    quoted(content)
                ));
            }
        }
        if let Some(expected) = &self.json {
            match &read {
                None => differences.push(format!("should answer JSON, and answered {}", quoted(content))),
                Some(found) => compare("", expected, found, &mut differences),
            }
        }
        for part in self.contains.iter().filter(|part| !content.contains(part.as_str())) {
            differences.push(format!("should contain {}, and is {}", quoted(part), quoted(content)));
        }
        if let Some(pattern) = self.matches.as_ref().filter(|pattern| !pattern.is_match(content)) {
            differences.push(format!("should match /{pattern}/, and is {}", quoted(content)));
        }
        differences
    }
}

fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("{key} should be a text or a list of texts");
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

/// Says where two values differ, by JSON Pointer; the first few places are enough.
fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
    const MOST: usize = 5;
    if differences.len() >= MOST || is_same(expected, found) {
        return;
    }
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                match found.get(key) {
                    Some(other) => compare(&format!("{path}/{key}"), value, other, differences),
                    None => {
                        differences.push(format!("{path}/{key} is missing, and should be {}", shown(value)))
                    }
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                differences.push(format!("{path}/{key} is {}, and should not be there", shown(value)));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (at, (one, other)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{path}/{at}"), one, other, differences);
            }
        }
        _ => {
            let place = if path.is_empty() { "the answer" } else { path };
            differences.push(format!("{place} should be {}, and is {}", shown(expected), shown(found)));
        }
    }
}

/// Equal, where `1` and `1.0` are the same number, and whole numbers are compared digit by digit.
pub fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => Exact::of(one) == Exact::of(other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn quoted(text: &str) -> String {
    cut(&format!("{text:?}"))
}

/// The beginning of a long text.
pub fn cut(text: &str) -> String {
    if text.len() <= QUOTED_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(QUOTED_BYTES);
    format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(expect: &Value, outcome: ToolOutcome, code: Option<&str>, content: &str) -> Vec<String> {
        Expectation::read(expect).unwrap().differences(&Answer { outcome, code, content })
    }

    #[test]
    fn what_is_expected_is_no_difference() {
        for (expect, content) in [
            (json!({"output": "3"}), "3"),
            (json!({"output": "three"}), "\"three\""),
            (json!({"json": {"a": 1, "b": [true]}}), r#"{"b":[true],"a":1.0}"#),
            (json!({"contains": ["thr", "ree"]}), "three"),
            (json!({"matches": "^t.*e$", "contains": "h"}), "three"),
        ] {
            assert_eq!(
                differences(&expect, ToolOutcome::Ok, None, content),
                Vec::<String>::new(),
                "{expect}"
            );
        }
        let failed = json!({"error": "not_found", "contains": "Berln"});
        let none = differences(&failed, ToolOutcome::Failed, Some("not-found"), "Error: not-found: Berln");
        assert_eq!(none, Vec::<String>::new());
        let none = differences(&json!({"error": "timed-out"}), ToolOutcome::TimedOut, None, "Error: …");
        assert_eq!(none, Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_said_with_its_place() {
        let of =
            |expect: Value, content: &str| differences(&expect, ToolOutcome::Ok, None, content).join("\n");
        insta::assert_snapshot!(of(json!({"output": "3"}), "4"), @r#"should answer "3", and answered "4""#);
        insta::assert_snapshot!(
            of(json!({"json": {"a": {"b": [1, 2]}, "c": 1}}), r#"{"a":{"b":[1,3]},"d":null}"#),
            @r"
        /a/b/1 should be 2, and is 3
        /c is missing, and should be 1
        /d is null, and should not be there
        "
        );
        let ids = [("9007199254740993", "9007199254740992"), ("-9007199254740993", "-9007199254740992.0")];
        for (expected, found) in ids {
            let expect = json!({"json": serde_json::from_str::<Value>(expected).unwrap()});
            let difference = format!("the answer should be {expected}, and is {found}");
            assert_eq!(of(expect, found), difference, "one double stands for both");
        }
        insta::assert_snapshot!(of(json!({"json": [1]}), "[1"), @r#"should answer JSON, and answered "[1""#);
        insta::assert_snapshot!(of(json!({"error": "denied"}), "3"), @r#"should fail with denied, and answered "3""#);
        insta::assert_snapshot!(of(json!({"contains": "x", "matches": "y+"}), "z"), @r#"
        should contain "x", and is "z"
        should match /y+/, and is "z"
        "#);
        let failed =
            differences(&json!({"output": "3"}), ToolOutcome::Trapped, None, "Error: the tool crashed.");
        insta::assert_snapshot!(failed.join("\n"), @r#"failed with trapped: "Error: the tool crashed.""#);
    }

    #[test]
    fn an_expectation_that_is_wrong_is_refused_in_words() {
        let of = |value: Value| Expectation::read(&value).unwrap_err();
        insta::assert_snapshot!(of(json!("3")), @"it should be a table with output, json, contains, matches and error");
        insta::assert_snapshot!(of(json!({})), @"it is empty; it may have output, json, contains, matches and error");
        insta::assert_snapshot!(of(json!({"outptu": "3"})), @r#"unknown key "outptu"; it may have output, json, contains, matches and error"#);
        insta::assert_snapshot!(of(json!({"output": 3})), @"output should be a text");
        insta::assert_snapshot!(of(json!({"matches": "("})), @"matches is no pattern: error: unclosed group");
    }
}
