//! What went wrong, in words for the model: what, where, and what to do about it.

use agent_tool::Failure;
use boa_engine::builtins::error::Error as ErrorData;
use boa_engine::error::{EngineError, RuntimeLimitError};
use boa_engine::parser::Error as ParseError;
use boa_engine::parser::lexer::Error as LexError;
use boa_engine::property::PropertyKey;
use boa_engine::{Context, JsError, JsObject, JsString, JsValue, js_string};

use crate::console::{Console, cut};
use crate::engine::{Problem, SCRIPT};
use crate::json::{self, Refusal};
use crate::realm::MOST_NESTED_CALLS;
use crate::script::LINES_BEFORE;
use crate::tools::{Calls, TOOL_ERROR, UNKNOWN_TOOL};

/// Longest description of an error, in bytes.
const MOST_BYTES: usize = 1 << 10;
/// How much of the console goes along with a failure, in bytes from its end.
const MOST_LOG_BYTES: usize = 1 << 10;

/// The code's own failing.
const SCRIPT_FAILED: &str = "script-failed";
/// The script ran, and its value is more than can be returned.
const RESULT_TOO_LARGE: &str = "result-too-large";
/// The script ran, and its value cannot be returned.
const RESULT_NOT_JSON: &str = "result-not-json";

/// The code is no JavaScript.
pub(crate) fn syntax_error(error: &ParseError, code: &str) -> Failure {
    let (reason, line) = match error {
        ParseError::Lex { err: LexError::IO(reason) } => {
            (format!("it ends too early: {reason}"), code.lines().count())
        }
        ParseError::AbruptEnd => {
            ("it ends too early: a bracket, brace or quote is not closed".to_owned(), code.lines().count())
        }
        ParseError::Lex { err: LexError::Syntax(reason, place) } => {
            let (line, column) = (place.line_number(), place.column_number());
            (format!("{reason} at line {line}, col {column}"), line as usize)
        }
        _ => {
            let reason = error.to_string();
            let line = number_after(&reason, "at line ").unwrap_or(0);
            (reason, line)
        }
    };
    let text =
        line.checked_sub(1).and_then(|index| code.lines().nth(index)).map(str::trim).unwrap_or_default();
    let excerpt =
        if text.is_empty() { String::new() } else { format!("; line {line} is: {}", cut(text, 120)) };
    Failure::invalid_arguments(format!(
        "the code is not valid JavaScript: {}{excerpt}",
        cut(&reason, MOST_BYTES)
    ))
}

/// The code is JavaScript, and what was made of it is not: the parser of function bodies stops at a brace that closes
/// nothing.
pub(crate) fn wrapped_syntax_error(error: &JsError) -> Failure {
    let reason = error.as_native().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::invalid_arguments(format!(
        "the code is not valid JavaScript: a brace is closed that was never opened ({})",
        cut(&reason, MOST_BYTES)
    ))
}

/// The engine itself failed, before the script had any part in it.
pub(crate) fn engine_fault(error: &JsError) -> Failure {
    Failure::new("internal", format!("the script engine did not start: {error}"))
}

/// The script ran and has no answer. Says how far it came, because what it did meanwhile is done.
pub(crate) fn failure(problem: Problem, context: &mut Context) -> Failure {
    let (code, mut message) = match problem {
        Problem::Thrown(error) | Problem::Unanswerable(Refusal::Thrown(error)) => {
            (SCRIPT_FAILED, describe_error(&error, context))
        }
        Problem::NeverSettles => (
            SCRIPT_FAILED,
            "the script awaits a promise that nothing settles; there are no timers here".to_owned(),
        ),
        Problem::Unanswerable(Refusal::TooLong(most)) => (
            RESULT_TOO_LARGE,
            format!(
                "the result is longer than {} KiB of JSON: return less, only what the answer needs",
                most >> 10
            ),
        ),
        Problem::Unanswerable(Refusal::Invalid(reason)) => {
            (RESULT_NOT_JSON, format!("the result cannot be put as JSON: {reason}"))
        }
    };
    match Calls::made(context) {
        0 => {}
        1 => message.push_str("; 1 call of a tool had succeeded before"),
        calls => message.push_str(&format!("; {calls} calls of tools had succeeded before")),
    }
    let log = Console::take(context).join("\n");
    if !log.is_empty() {
        let from = log.ceil_char_boundary(log.len().saturating_sub(MOST_LOG_BYTES));
        message.push_str("; the console says:\n");
        message.push_str(log.get(from..).unwrap_or_default());
    }
    Failure::new(code, message)
}

/// An error in words: which, why, and in which line.
pub(crate) fn describe_error(error: &JsError, context: &mut Context) -> String {
    if let Some(engine_error) = error.as_engine() {
        return describe_engine_error(engine_error);
    }
    match error.clone().into_opaque(context) {
        Ok(value) => describe_thrown(&value, context),
        Err(_) => cut(&error.to_string(), MOST_BYTES).to_owned(),
    }
}

fn describe_engine_error(error: &EngineError) -> String {
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

/// What was thrown, in words.
pub(crate) fn describe_thrown(value: &JsValue, context: &mut Context) -> String {
    let Some(error) = value.as_object().filter(|object| object.is::<ErrorData>()) else {
        return format!("the script threw {}", json::show(value, MOST_BYTES, context));
    };
    let name = text_of(&error, js_string!("name"), context);
    let message = text_of(&error, js_string!("message"), context);
    let message = cut(&message, MOST_BYTES);
    let is_tool_error = name == TOOL_ERROR;
    let code = if is_tool_error { text_of(&error, js_string!("code"), context) } else { String::new() };
    // For names that are not there the engine's traces have no place but that of what came before.
    let line = match (name.as_str(), code.as_str()) {
        ("ReferenceError", _) | (TOOL_ERROR, UNKNOWN_TOOL) => None,
        _ => line_of(&text_of(&error, js_string!("stack"), context)),
    };
    let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    if is_tool_error {
        let tool = text_of(&error, js_string!("tool"), context);
        return format!("the tool `{tool}` failed with {code}{place}: {message}");
    }
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{name}{colon}{message}{place}")
}

/// A property as text; nothing if it is none.
fn text_of(object: &JsObject, key: JsString, context: &mut Context) -> String {
    match object.get(PropertyKey::from(key), context) {
        Ok(value) => value.as_string().map(|text| text.to_std_string_lossy()).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The innermost line of the script in a trace of the engine's, which has entries such as `at f (script:12:5)`.
fn line_of(trace: &str) -> Option<usize> {
    let line = number_after(trace, &format!("({SCRIPT}:"))?;
    line.checked_sub(LINES_BEFORE as usize).filter(|line| *line > 0)
}

/// The number that follows the first `mark` in a text.
fn number_after(text: &str, mark: &str) -> Option<usize> {
    let (_, rest) = text.split_once(mark)?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}
