//! JSON Schemas of strangers: read, weighed, and held against values within a budget.
//!
//! A schema is a program that the host runs for a guest, so it runs on a meter as the guest does. The evaluator
//! is our own, for the dialect 2020-12 without dynamic references, because none that could be had can be
//! metered: the `jsonschema` crate validates in keywords (`uniqueItems`, `enum`, `unevaluated*`, fused checks of
//! items) that a custom keyword never sees, collects every error before the first is given out, clones the
//! value once for each branch of an `anyOf`, and recurses without a bound. Here every step is paid for from a
//! [`Fuel`] before it is done (`check`), programs of patterns are small and matching costs length times size
//! (`pattern`), what has to be read for it may take only so much memory (`parse`), and what is too deep, too
//! large or refers to itself is refused when it is loaded (`compile`). That crate is what the tests hold the
//! evaluator against.

mod check;
mod compile;
mod fuel;
mod number;
mod parse;
mod pattern;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Instant;

use serde_json::Value;

use crate::text::printable;
use check::Check;
use compile::Rules;

pub(crate) use fuel::{Exhausted, Fuel};
pub(crate) use parse::{ParseError, parse};

/// Longest schema, in bytes: it is part of every model call.
const BYTES: usize = 64 << 10;

/// Longest problem text, in bytes: it quotes what the model or the tool wrote.
const PROBLEM_BYTES: usize = 300;

/// What preparing the schemas of one component may use up.
#[derive(Debug)]
pub(crate) struct Budget {
    fuel: Fuel,
    patterns: pattern::PatternBudget,
}

impl Budget {
    /// For work that ends at `deadline` at the latest.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { fuel: Fuel::until(deadline), patterns: pattern::PatternBudget::default() }
    }
}

/// A schema that values can be held against.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What it was read from.
    pub(crate) text: Value,
    rules: Rules,
}

/// Why a value was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
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
    pub(crate) fn read(text: &str, budget: &mut Budget) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("is longer than {BYTES} bytes"));
        }
        let text: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        if !text.is_object() {
            return Err("is not an object".into());
        }
        let rules = Rules::compile(&text, budget)?;
        Ok(Self { text, rules })
    }

    /// Holds a value against the schema. `whole` is what the value is called when the problem is not in a part
    /// of it.
    pub(crate) fn check(&self, value: &Value, whole: &str, fuel: &mut Fuel) -> Result<(), Misfit> {
        let problems = Check::run(&self.rules, value, whole, fuel)?;
        if problems.is_empty() { Ok(()) } else { Err(Misfit::Wrong(problems.join("; "))) }
    }
}

/// Shows the beginning of a value: writing all of it down may take megabytes. Nothing is read of the value before it is
/// shown, because most of what does not hold is never told.
fn brief(value: &Value) -> impl fmt::Display {
    Brief(value)
}

struct Brief<'a>(&'a Value);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(test)]
        tests::SHOWN.set(tests::SHOWN.get() + 1);
        let mut start = Bounded(Vec::new());
        let whole = serde_json::to_writer(&mut start, self.0).is_ok();
        let mut text =
            printable(String::from_utf8_lossy(&start.0).trim_end_matches('\u{fffd}'), PROBLEM_BYTES / 3);
        if !whole && !text.ends_with('…') {
            text.push('…');
        }
        f.write_str(&text)
    }
}

/// Refuses what does not fit.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = PROBLEM_BYTES.saturating_sub(self.0.len());
        if room == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
