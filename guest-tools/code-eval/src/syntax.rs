//! Code that is no JavaScript, in words for the model.

use agent_tool_sdk::Failure;
use boa_engine::JsError;
use boa_engine::parser::Error as ParseError;
use boa_engine::parser::lexer::Error as LexError;

use crate::text::{cut, number_after};

/// Longest reason that goes along, in bytes.
const MOST_REASON_BYTES: usize = 1 << 10;

/// The code is no JavaScript.
pub(crate) fn failure(error: &ParseError, code: &str) -> Failure {
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
        cut(&reason, MOST_REASON_BYTES)
    ))
}

/// The code is JavaScript, and what was made of it is not: the parser of function bodies stops at a brace
/// that closes nothing.
pub(crate) fn failure_of_wrapped(error: &JsError) -> Failure {
    let reason = error.as_native().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::invalid_arguments(format!(
        "the code is not valid JavaScript: a brace is closed that was never opened ({})",
        cut(&reason, MOST_REASON_BYTES)
    ))
}
