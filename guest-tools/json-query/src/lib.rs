//! The `json-query` component: the tool `json_query`, which runs a query in the jq language.
//!
//! The language is jaq's; `query` compiles and runs, `library` says which functions there are, `outcome`
//! turns what comes out into JSON, `recursion` ends what goes too deep, and `refusal` turns what goes wrong
//! into words. There is no `input`, `include`, `import` or `now`, and `$ENV` is empty.

mod library;
mod outcome;
mod query;
mod recursion;
mod refusal;
#[cfg(test)]
mod tests;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use outcome::Results;

/// What to ask of what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// Not wrapped into a string
    #[schemars(with = "serde_json::Value")]
    json: Box<RawValue>,
    query: String,
}

fn json_query(Question { json, query }: Question) -> Result<Results, Failure> {
    query::run(&query, json.get())
}

agent_tool_sdk::export! {
    /// Runs a jq query on a JSON value to filter, sort, group or add up.
    json_query(Question) -> Results, hints: [read_only, idempotent, pure], timeout_ms: 2000;
}
