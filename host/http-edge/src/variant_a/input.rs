//! What a valid request body is: `{"input": "…"}`. Keys that nobody asked for are ignored.

use serde_json::Value;

/// What is wrong with a request that is JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error("`input` is missing")]
    Missing,
    #[error("`input` is not a string")]
    NotAString,
    #[error("`input` is empty")]
    Empty,
}

/// The caller's text as it was sent: blanks count as text, and what they mean is the model's to decide.
pub(super) fn take_input(body: Value) -> Result<String, InputError> {
    let Value::Object(mut fields) = body else { return Err(InputError::NotAnObject) };
    match fields.remove("input") {
        None => Err(InputError::Missing),
        Some(Value::String(input)) if input.is_empty() => Err(InputError::Empty),
        Some(Value::String(input)) => Ok(input),
        Some(_) => Err(InputError::NotAString),
    }
}
