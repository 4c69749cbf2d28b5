//! The `calculator` component: the tool `calculate`.
//!
//! An expression goes through three stages, a file each: `lexer` and `parser` make of it a `program` for a
//! stack machine or refuse it with a position; `program` runs it on `number`s; `notation` writes the result.
//! A number is an exact fraction, or a `ball`: a real number known to within a radius. So every digit of an
//! answer is known to be right, and an answer says whether it is the whole truth.

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

use agent_tool::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use notation::Answer;

/// What to work out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The expression, for example `(19.99 * 3 + 4.50) * 1.2` or `round(sqrt(2) * 100, 2)`.
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
    Ok(Answer::of(&value))
}

agent_tool::export! {
    /// Works out an arithmetic expression, exactly: 0.1 + 0.2 is 0.3. Use it for every calculation whose
    /// result matters.
    ///
    /// Operators: + - * / % (remainder, with the sign of the divisor), ^ or ** (power, binds tighter than a
    /// sign before it and to the right: -2^2 is -4, 2^3^2 is 512), parentheses. Numbers: 12, 0.5, .5,
    /// 6.02e23. Constants: pi, e. Functions: sqrt(x), cbrt(x), abs(x), round(x) or round(x, decimals) (halves
    /// away from zero), floor(x), ceil(x), trunc(x), min(x, …), max(x, …), exp(x), ln(x), log10(x), log2(x),
    /// sin(x), cos(x), tan(x), asin(x), acos(x), atan(x); angles are in radians. Nothing else: no variables,
    /// no percent sign, no separators within numbers, no multiplication without *.
    ///
    /// `value` is exact, whole numbers to 2000 digits and decimals to 100, when `exact` is true; otherwise it
    /// is rounded to at most 34 significant digits, and `fraction` gives the exact value where there is a
    /// short one. Results beyond 10^±10000 are refused.
    calculate(Question) -> Answer, hints: [read_only, idempotent], timeout_ms: 1000;
}
