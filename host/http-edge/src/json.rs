//! What counts as JSON in a request body, whatever its content type says. Which fields it must have is each
//! variant's own affair.
//!
//! | body | is |
//! |---|---|
//! | nothing, or a byte order mark alone | `{}` (host/docs/interface/decisions-http.md#bodies) |
//! | a byte order mark, then JSON | that JSON, as in the Node stack and as RFC 8259 section 8.1 allows |
//! | a key that occurs twice | its last value, as in `JSON.parse` |
//! | an escaped NUL in a string | text like any other; a store that cannot keep it has to say so |
//! | bytes that are not UTF-8, an escape of half a surrogate pair | text with U+FFFD in its place |
//! | values of more than 16 MiB beside their texts | too large |
//! | more than 127 arrays and objects in one another, a number beyond a double | not JSON: more than we read |

use json_schema::{MemoryBudget, ReadError};
use serde_json::Value;

/// A body that is not read as JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// What is wrong is told by its place only: bodies do not belong in the log.
    #[error("the body is not JSON at line {line}, column {column}")]
    Syntax { line: usize, column: usize },
    /// The body has more members and elements than its values may take memory for, which bounds what one body
    /// takes however large bodies may be (`MAX_BODY_BYTES`).
    #[error("the body has too many members and elements: {0}")]
    TooLarge(ReadError),
}

impl From<ReadError> for JsonError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Json(error) => Self::Syntax { line: error.line(), column: error.column() },
            ReadError::TooLarge { .. } => Self::TooLarge(error),
        }
    }
}

/// Reads a body.
pub fn parse(body: &[u8]) -> Result<Value, JsonError> {
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if text.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    Ok(MemoryBudget::default().read_loosely(text)?)
}
