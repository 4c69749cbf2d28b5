//! The `csv-query` component: the tool `csv_query`, a SELECT over one table that is passed in as CSV.
//!
//! `table` reads the CSV; `lexer` and `parser` make of the SQL a `query` whose names are resolved against the
//! table's columns; `run` groups, sorts and cuts, and asks `expression` for values; `value` has the rules of
//! SQL's values. Numbers are exact decimals of up to 28 digits, so sums of money are right.
//!
//! What the description leaves out, because each word of it is paid for in every model call: the delimiter is
//! found by itself; a cell is a number if it is written as one without leading zeros, and null if it is
//! empty; a column may be named as in the header or with `_` for what is no letter or digit; the name after
//! FROM does not matter.

mod aggregate;
mod expression;
mod functions;
mod lexer;
mod parser;
mod query;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod value;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use run::Answer;

/// What to ask of what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// With a header line
    csv: String,
    /// SELECT … FROM csv …; no joins or subqueries
    sql: String,
}

fn csv_query(Question { csv, sql }: Question) -> Result<Answer, Failure> {
    let table = table::read(&csv)?;
    let query = parser::parse(&sql, &table.columns)?;
    run::run(&query, &table)
}

agent_tool_sdk::export! {
    /// Runs SQL on CSV text: to filter, group, aggregate or sort.
    csv_query(Question) -> Answer, hints: [read_only, idempotent, pure], timeout_ms: 5000;
}
