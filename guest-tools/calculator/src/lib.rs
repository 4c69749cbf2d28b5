//! The `calculator` component: the tool `calculate`.
//!
//! An expression goes through three stages, a file each: `lexer` and `parser` make of it a `program` for a
//! stack machine or refuse it with a position; `program` runs it on `number`s; `notation` writes the result.
//! A number is an exact fraction, or a `ball`: a real number known to within a radius. So every digit of an
//! answer is known to be right, and an answer says whether it is the whole truth.
//!
//! What the description leaves out, because each word of it is paid for in every model call: `%` is the
//! remainder, not percent, and has the sign of the divisor; there are no variables; `^` or `**` binds tighter
//! than a sign before it and to the right (-2^2 is -4, 2^3^2 is 512); numbers are written 12, 0.5, .5 or
//! 6.02e23; `round` takes halves away from zero. An exact `value` is whole to 2000 digits and decimal to 100,
//! any other is rounded to at most 34 significant digits, and `fraction` is the exact value where there is a
//! short one. After thirty operations of fractions of 2000 digits the long ones are rounded on the way.
//! Results beyond 10^±10000 are refused.

mod ball;
mod functions;
mod lexer;
mod notation;
mod number;
mod obstacle;
mod parser;
mod program;
mod series;
#[cfg(test)]
mod tests;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use notation::Answer;

/// What to work out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    expression: String,
}

/// Why there is no value, and where in the expression.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    /// The character it is about, counted from 1.
    position: usize,
    reason: String,
}

fn calculate(Question { expression }: Question) -> Result<Answer, Failure> {
    evaluate(&expression).map_err(|Refusal { position, reason }| {
        Failure::invalid_arguments(format!("at character {position} of the expression: {reason}"))
    })
}

fn evaluate(expression: &str) -> Result<Answer, Refusal> {
    let value = parser::parse(lexer::read_tokens(expression)?)?.run()?;
    Answer::of(&value).map_err(|obstacle| Refusal { position: 1, reason: obstacle.to_string() })
}

agent_tool_sdk::export! {
    /// Works out an arithmetic expression exactly. Use it for every calculation. Has + - * / % ^ ( ) pi e
    /// sqrt cbrt abs round(x, decimals) floor ceil trunc min max exp ln log10 log2 sin cos tan asin acos
    /// atan, in radians.
    calculate(Question) -> Answer, hints: [read_only, idempotent, pure], timeout_ms: 1000;
}
