//! The `json-query` component: the tool `json_query`, which runs a query in the jq language.
//!
//! The language is jaq's; `query` compiles and runs, `library` says which functions there are, `outcome`
//! turns what comes out into JSON, and `refusal` turns what goes wrong into words.

mod library;
mod outcome;
mod query;
mod refusal;
#[cfg(test)]
mod tests;

use agent_tool::Failure;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use outcome::Results;

/// What to ask of what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The JSON value to query: any value, as it is, not wrapped into a string.
    #[schemars(with = "serde_json::Value")]
    json: Box<RawValue>,
    /// The query in the jq language, for example `.items[] | select(.price > 10) | {name, price}`.
    query: String,
}

fn json_query(Question { json, query }: Question) -> Result<Results, Failure> {
    query::run(&query, json.get())
}

agent_tool::export! {
    /// Selects from a JSON value and reshapes it, in the jq language. Use it to pick, filter, sort, group,
    /// count or add up what a large JSON value holds, rather than reading through it.
    ///
    /// `results` holds every value the query yields, in order: `.items[].name` yields one per item, and
    /// `[.items[].name]` yields one array. jq's usual functions are there (map, select, group_by, sort_by,
    /// to_entries, test, sub, tonumber, todate, …), but there is one input and no file, module, environment or
    /// clock: no input, include, import or now, and $ENV is empty. Text that holds JSON is taken apart with
    /// fromjson.
    json_query(Question) -> Results, hints: [read_only, idempotent], timeout_ms: 2000;
}
