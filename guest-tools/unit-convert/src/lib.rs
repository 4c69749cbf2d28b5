//! The `unit-convert` component: the tool `unit_convert`.
//!
//! `units` is the table of units by what they measure, `names` finds the units that a name may mean,
//! `convert` calculates with exact fractions, and `notation` reads and writes decimals.
//!
//! What the description leaves out, because each word of it is paid for in every model call: a name may mean
//! several units (an ounce weighs or fills a cup), and the other unit decides; gallons, pints, cups and tons
//! are those of the United States unless `imperial` or `metric` stands before them; months and years are
//! means of the Gregorian calendar; a temperature is a point on its scale, not a difference. The answer says
//! in full which units were taken.

mod convert;
mod names;
mod notation;
mod units;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use convert::Answer;

/// What to convert.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    // As it is written: a float does not have all digits of a whole number beyond 2^53.
    #[schemars(with = "f64")]
    value: Box<RawValue>,
    /// Such as mi, km/h, GiB
    from: String,
    to: String,
}

fn unit_convert(Question { value, from, to }: Question) -> Result<Answer, Failure> {
    convert::convert(value.get(), &from, &to).map_err(Failure::invalid_arguments)
}

agent_tool_sdk::export! {
    /// Converts between units of measurement.
    unit_convert(Question) -> Answer, hints: [read_only, idempotent, pure], timeout_ms: 1000;
}
