//! Errors of scripts and of the engine in words: which, why, and in which line.

use boa_engine::error::{EngineError, RuntimeLimitError};
use boa_engine::property::PropertyKey;
use boa_engine::{Context, JsObject, JsString, js_string};

use crate::limits::MOST_NESTED_CALLS;
use crate::script::{LINES_BEFORE, SCRIPT};
use crate::text::{cut, number_after};

/// Longest description of an error, in bytes.
pub(crate) const MOST_BYTES: usize = 1 << 10;

/// The name of errors that calls of tools throw.
pub(crate) const TOOL_ERROR: &str = "ToolError";

/// The code of calls of tools that are not there, as the contract has it.
pub(crate) const UNKNOWN_TOOL: &str = "unknown-tool";

/// An object that is an error in words.
pub(crate) fn describe_object(error: &JsObject, context: &mut Context) -> String {
    let name = text_of(error, js_string!("name"), context);
    let message = text_of(error, js_string!("message"), context);
    let message = cut(&message, MOST_BYTES);
    let is_tool_error = name == TOOL_ERROR;
    let code = if is_tool_error { text_of(error, js_string!("code"), context) } else { String::new() };
    // For names that are not there the engine's traces have no place but that of what came before.
    let line = match (name.as_str(), code.as_str()) {
        ("ReferenceError", _) | (TOOL_ERROR, UNKNOWN_TOOL) => None,
        _ => line_of(&text_of(error, js_string!("stack"), context)),
    };
    let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    if is_tool_error {
        let tool = text_of(error, js_string!("tool"), context);
        return format!("the tool `{tool}` failed with {code}{place}: {message}");
    }
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{name}{colon}{message}{place}")
}

/// What stopped the engine in words.
pub(crate) fn describe_engine_error(error: &EngineError) -> String {
    match error {
        EngineError::RuntimeLimit(RuntimeLimitError::Recursion) => {
            format!("too much recursion: more than {MOST_NESTED_CALLS} calls within one another; use a loop")
        }
        EngineError::RuntimeLimit(RuntimeLimitError::StackSize) => {
            "too many values on the stack: do not spread large arrays into arguments; use a loop".to_owned()
        }
        other => format!("the script engine failed: {}", cut(&other.to_string(), MOST_BYTES)),
    }
}

/// A property as text; nothing if it is none.
fn text_of(object: &JsObject, key: JsString, context: &mut Context) -> String {
    match object.get(PropertyKey::from(key), context) {
        Ok(value) => value.as_string().map(|text| text.to_std_string_lossy()).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The innermost line of the script in a trace of the engine's, which has entries such as `at f
/// (script:12:5)`.
fn line_of(trace: &str) -> Option<usize> {
    let line = number_after(trace, &format!("({SCRIPT}:"))?;
    line.checked_sub(LINES_BEFORE as usize).filter(|line| *line > 0)
}
