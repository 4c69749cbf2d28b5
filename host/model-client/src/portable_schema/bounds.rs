//! Bounds of numbers and formats of texts: the few keywords about values that every server takes.

use json_schema::syntax::Keywords;
use serde_json::{Map, Value, json};

use super::types::Types;

/// Beyond this a JSON number is not exact everywhere, and llama.cpp casts it to something else.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Formats of strings that servers know; others only stand in the way (`uint32` and the like of generators).
const FORMATS: [&str; 8] = ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "uuid"];

/// Adds what can be said of values of these types.
pub(super) fn insert(form: &mut Map<String, Value>, keywords: Keywords<'_>, types: &Types) {
    match types.only() {
        Some(kind @ ("integer" | "number")) => {
            for (key, bound) in [("minimum", least(keywords, kind)), ("maximum", most(keywords, kind))] {
                if let Some(bound) = bound {
                    form.insert(key.into(), bound);
                }
            }
        }
        Some("string") => {
            let format = keywords.text("format");
            if let Some(format) = format.filter(|format| FORMATS.contains(format)) {
                form.insert("format".into(), format.into());
            }
        }
        _ => {}
    }
}

/// The bound below. An exclusive one has a place of its own only among whole numbers.
fn least(keywords: Keywords<'_>, kind: &str) -> Option<Value> {
    let inclusive = number(keywords, "minimum");
    if kind == "number" {
        return inclusive.and_then(plain);
    }
    let exclusive = number(keywords, "exclusiveMinimum").map(|bound| bound.floor() + 1.0);
    whole(inclusive.map(f64::ceil).into_iter().chain(exclusive).reduce(f64::max)?)
}

/// The bound above.
fn most(keywords: Keywords<'_>, kind: &str) -> Option<Value> {
    let inclusive = number(keywords, "maximum");
    if kind == "number" {
        return inclusive.and_then(plain);
    }
    let exclusive = number(keywords, "exclusiveMaximum").map(|bound| bound.ceil() - 1.0);
    whole(inclusive.map(f64::floor).into_iter().chain(exclusive).reduce(f64::min)?)
}

fn number(keywords: Keywords<'_>, key: &str) -> Option<f64> {
    keywords.number(key)?.as_f64().filter(|bound| bound.abs() < LARGEST_EXACT)
}

fn plain(bound: f64) -> Option<Value> {
    if bound.fract() == 0.0 { whole(bound) } else { Some(json!(bound)) }
}

fn whole(bound: f64) -> Option<Value> {
    Some(json!(bound as i64))
}
