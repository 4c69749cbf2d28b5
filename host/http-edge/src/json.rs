//! What counts as JSON in a request body, whatever its content type says. Which fields it must have is each
//! variant's own affair.
//!
//! | body | is |
//! |---|---|
//! | nothing at all | `{}` (decisions, "Wrong or missing content type") |
//! | a byte order mark, then JSON | that JSON, as in the Node stack and as RFC 8259 section 8.1 allows |
//! | a key that occurs twice | its last value, as in `JSON.parse` |
//! | an escaped NUL in a string | text like any other; a store that cannot keep it has to say so |
//! | anything but UTF-8; an escaped lone surrogate | not JSON: it is no text |
//! | more than 127 arrays and objects in one another, a number beyond a double | not JSON: more than we read |

use serde_json::Value;

/// A body that is not JSON. What is wrong is told by its place only: bodies do not belong in the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not JSON at line {line}, column {column}")]
pub(crate) struct NotJson {
    line: usize,
    column: usize,
}

/// Reads a body.
pub(crate) fn parse(body: &[u8]) -> Result<Value, NotJson> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    serde_json::from_slice(text).map_err(|error| NotJson { line: error.line(), column: error.column() })
}
