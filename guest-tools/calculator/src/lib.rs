//! The `calculator` component (first cut).

use agent_tool::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to work out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The expression, for example `(0.1 + 0.2) * 3`.
    expression: String,
}

/// The result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// The value in decimal notation.
    value: String,
    /// Whether `value` is exact.
    exact: bool,
}

fn calculate(question: Question) -> Result<Answer, Failure> {
    Ok(Answer { value: question.expression, exact: false })
}

agent_tool::export! {
    /// Works out an arithmetic expression.
    calculate(Question) -> Answer, hints: [read_only, idempotent], timeout_ms: 500;
}
