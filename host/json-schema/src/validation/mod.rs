//! JSON Schemas of strangers: read, weighed, and held against values within a budget.
//!
//! A schema is a program that the host runs for a guest, so it runs on a meter as the guest does. The
//! evaluator is our own, for the dialect 2020-12 without dynamic references, because none that could be had
//! can be metered: the `jsonschema` crate validates in keywords (`uniqueItems`, `enum`, `unevaluated*`, fused
//! checks of items) that a custom keyword never sees, collects every error before the first is given out,
//! clones the value once for each branch of an `anyOf`, and recurses without a bound. Here every step is paid
//! for from a [`Fuel`] before it is done (`check`), programs of patterns are small and matching costs length
//! times size (`pattern`), what has to be read for it may take only so much memory ([`MemoryBudget`]),
//! and what is too deep, too large or refers to itself is refused when it is loaded (`compile`), unless its
//! reader allows the last ([`SchemaBudget::recursive`]). The tests hold the evaluator against the
//! `jsonschema` crate.

mod check;
mod compile;
mod fuel;
mod pattern;
mod rules;
mod schema_budget;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::{MemoryBudget, ReadError};
use check::Check;
use rules::Rules;

pub use fuel::{Exhausted, Fuel};
pub use schema_budget::SchemaBudget;

/// Longest schema, in bytes: it is part of every model call.
const BYTES: usize = 64 << 10;

/// A schema that values can be held against.
#[derive(Debug)]
pub struct Schema {
    /// What it was read from.
    pub text: Value,
    rules: Rules,
}

/// Why a value was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The value does not match: what is wrong with it.
    Wrong(String),
    /// To find out would take more steps, memory or time than there are.
    TooCostly,
}

impl From<Exhausted> for Misfit {
    fn from(_: Exhausted) -> Self {
        Self::TooCostly
    }
}

impl Schema {
    /// Reads a schema, or says what is wrong with it.
    pub fn read(text: &str, budget: &mut SchemaBudget) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("is longer than {BYTES} bytes: leave out what the tool can check by itself"));
        }
        let text = MemoryBudget::default().read(text.as_bytes());
        let text = text.map_err(|error| match error {
            ReadError::Json(error) => format!("is not JSON: {error}"),
            ReadError::TooLarge { .. } => error.to_string(),
        })?;
        if !text.is_object() {
            return Err(r#"is not an object: write {"type": "object", …}"#.into());
        }
        let rules = Rules::compile(&text, budget)?;
        Ok(Self { text, rules })
    }

    /// Holds a value against the schema. `whole` is what the value is called when the problem is not in a
    /// part of it.
    pub fn check(&self, value: &Value, whole: &str, fuel: &mut Fuel) -> Result<(), Misfit> {
        let problems = Check::run(&self.rules, value, whole, fuel)?;
        if problems.is_empty() { Ok(()) } else { Err(Misfit::Wrong(problems.join("; "))) }
    }
}
