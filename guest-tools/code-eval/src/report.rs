//! What went wrong, in words for the model: what, where, and what to do about it.

use agent_tool_sdk::Failure;
use boa_engine::{Context, JsError};

use crate::console::Console;
use crate::json::Refusal;
use crate::show;
use crate::tools::Calls;

/// How much of the console goes along with a failure, in bytes from its end.
const MOST_LOG_BYTES: usize = 1 << 10;

/// The code's own failing.
const SCRIPT_FAILED: &str = "script-failed";
/// The script ran, and its value is more than can be returned.
const RESULT_TOO_LARGE: &str = "result-too-large";
/// The script ran, and its value cannot be returned.
const RESULT_NOT_JSON: &str = "result-not-json";

/// Why a script that runs has no answer.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The script threw, or was stopped.
    Thrown(JsError),
    /// The script waits for a promise that never settles.
    NeverSettles,
    /// The script's value is no JSON.
    Unanswerable(Refusal),
}

impl From<JsError> for Problem {
    fn from(error: JsError) -> Self {
        Self::Thrown(error)
    }
}

/// The engine itself failed, before the script had any part in it.
pub(crate) fn engine_fault(error: &JsError) -> Failure {
    Failure::new("internal", format!("the script engine did not start: {error}"))
}

/// The script ran and has no answer. Says how far it came, because what it did meanwhile is done.
pub(crate) fn failure(problem: Problem, context: &mut Context) -> Failure {
    let (code, mut message) = match problem {
        Problem::Thrown(error) | Problem::Unanswerable(Refusal::Thrown(error)) => {
            (SCRIPT_FAILED, show::error(&error, context))
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
