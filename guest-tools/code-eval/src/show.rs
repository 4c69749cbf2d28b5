//! Values and errors as somebody reads them: the console's lines and what is said of a failure.

use boa_engine::builtins::error::Error as ErrorData;
use boa_engine::{Context, JsError, JsValue};

use crate::errors;
use crate::json::{self, Refusal};
use crate::text::cut;

/// A value: as JSON as far as that goes.
pub(crate) fn value(value: &JsValue, most_bytes: usize, context: &mut Context) -> String {
    match json::write_some(value, most_bytes, context) {
        (text, Ok(true)) => text,
        (_, Ok(false)) if value.is_undefined() => "undefined".to_owned(),
        (_, Ok(false)) => format!("[{}]", value.type_of()),
        (text, Err(Refusal::TooLong(_))) => text + "…",
        (_, Err(Refusal::Invalid(reason))) => format!("[no JSON: {reason}]"),
        (_, Err(Refusal::Thrown(thrown))) => format!("[no JSON: {}]", error(&thrown, context)),
    }
}

/// What was thrown, in words.
pub(crate) fn thrown(value: &JsValue, context: &mut Context) -> String {
    match value.as_object().filter(|object| object.is::<ErrorData>()) {
        Some(error) => errors::describe_object(&error, context),
        None => format!("the script threw {}", self::value(value, errors::MOST_BYTES, context)),
    }
}

/// An error in words: which, why, and in which line.
pub(crate) fn error(error: &JsError, context: &mut Context) -> String {
    if let Some(engine_error) = error.as_engine() {
        return errors::describe_engine_error(engine_error);
    }
    match error.clone().into_opaque(context) {
        Ok(value) => thrown(&value, context),
        Err(_) => cut(&error.to_string(), errors::MOST_BYTES).to_owned(),
    }
}
