//! What does not fit a type, and where in the value.

use std::fmt::{self, Display, Formatter};

use json_schema::text_sanitizer::printable;
use serde_json::Value;

/// Longest name of a stranger that a mismatch shows, in bytes.
const SHOWN_BYTES: usize = 64;

/// Most names that a mismatch lists.
const LISTED: usize = 16;

/// A value that does not fit its type. Says what is wrong without the value itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Mismatch {
    /// JSON Pointer to the part that does not fit; empty for the whole.
    pub(crate) path: String,
    pub(crate) problem: String,
}

impl Display for Mismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.path, self.problem)
        }
    }
}

impl Mismatch {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }

    /// The value is of another kind than the type wants.
    pub(super) fn expected(wanted: &str, found: &Value) -> Self {
        Self::new(format!("expected {wanted}, found {}", kind(found)))
    }

    /// The mismatch as seen from one level up. The path is only made once something is wrong.
    pub(super) fn under(mut self, key: impl Display) -> Self {
        let key = printable(&key.to_string(), SHOWN_BYTES).replace('~', "~0").replace('/', "~1");
        self.path.insert_str(0, &key);
        self.path.insert(0, '/');
        self
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A name that came with a value, bounded.
pub(super) fn quoted(name: &str) -> String {
    format!("{:?}", printable(name, SHOWN_BYTES))
}

/// The names that would have done.
pub(super) fn one_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(LISTED);
    let mut listed: Vec<_> = names.take(LISTED).map(quoted).collect();
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    listed.join(", ")
}
