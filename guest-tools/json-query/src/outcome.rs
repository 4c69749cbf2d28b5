//! What a query yields, as JSON. jaq's values are more than JSON's: what has no place in JSON is brought into
//! it as jq does, or refused.

use agent_tool_sdk::Failure;
use jaq_core::{Exn, ValX};
use jaq_json::{Num, Val};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{recursion, refusal};

/// The most results that are returned.
const MOST_RESULTS: usize = 1000;
/// The most JSON that is returned, in bytes: it is a model that has to read it.
const MOST_BYTES: usize = 128 << 10;
/// The most arrays and objects within one another of a result: what readers of JSON take, `serde_json` first,
/// when they stand in an answer.
const MOST_DEPTH: usize = 125;

/// The results.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Results {
    /// The values that the query yields, in order.
    #[schemars(with = "Vec<serde_json::Value>")]
    results: Vec<Box<RawValue>>,
    /// Present and true when there were more results than are returned: more than 1000, or more than 128 KiB
    /// of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Results {
    /// Collects what a query yields, up to the limits.
    pub(crate) fn collect<'a>(values: impl Iterator<Item = ValX<'a, Val>>) -> Result<Self, Failure> {
        let mut collected = Self::default();
        let mut bytes = 0;
        for value in values {
            let value = value.map_err(|exception| refuse_exception(exception, collected.results.len()))?;
            let mut json = String::new();
            write_json(&mut json, &value, 0)?;
            bytes += json.len();
            if collected.results.is_empty() && bytes > MOST_BYTES {
                return Err(refusal::at_run_time(&"a result is larger than 128 KiB; select less of it"));
            }
            if collected.results.len() == MOST_RESULTS || bytes > MOST_BYTES {
                collected.truncated = true;
                break;
            }
            let json = RawValue::from_string(json).map_err(|problem| refusal::at_run_time(&problem))?;
            collected.results.push(json);
        }
        Ok(collected)
    }

    #[cfg(test)]
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap()
    }
}

fn refuse_exception(exception: Exn<'_, Val>, results: usize) -> Failure {
    match exception.get_err() {
        Ok(error) if results == 0 => refusal::at_run_time(&error),
        Ok(error) => refusal::at_run_time(&format_args!("after {results} results: {error}")),
        Err(exception) => refusal::at_run_time(&match exception.get_halt() {
            Ok(recursion::TOO_DEEP) => {
                "a function calls itself too deep: call it in the last place only, or write reduce, \
                 foreach or recurse"
            }
            _ => "the query calls halt; there is nothing to halt here",
        }),
    }
}

/// Writes a value that stands in so many arrays and objects.
fn write_json(json: &mut String, value: &Val, depth: usize) -> Result<(), Failure> {
    if depth == MOST_DEPTH && matches!(value, Val::Arr(_) | Val::Obj(_)) {
        return Err(refusal::at_run_time(&format_args!(
            "a result is more than {MOST_DEPTH} arrays and objects deep; select less of it"
        )));
    }
    match value {
        Val::Null => json.push_str("null"),
        Val::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Val::Num(number) => write_number(json, number),
        Val::TStr(text) => write_text(json, text),
        Val::BStr(_) => {
            return Err(refusal::at_run_time(&"a result holds bytes, which JSON cannot; make text of them"));
        }
        Val::Arr(values) => {
            json.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_json(json, value, depth + 1)?;
            }
            json.push(']');
        }
        Val::Obj(fields) => {
            json.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                let Val::TStr(key) = key else {
                    return Err(refusal::at_run_time(&format_args!(
                        "a result has the key {key}; JSON's keys are text"
                    )));
                };
                write_text(json, key);
                json.push(':');
                write_json(json, value, depth + 1)?;
            }
            json.push('}');
        }
    }
    Ok(())
}

/// Writes a number. What is not one becomes null, and what is beyond all becomes the largest, as jq has it.
fn write_number(json: &mut String, number: &Num) {
    let text = match number {
        Num::Float(float) => write_float(*float),
        Num::Int(_) => number.to_string(),
        // Long numbers keep all their digits, unless a reader of JSON would find them infinite.
        Num::BigInt(_) | Num::Dec(_) => {
            let text = number.to_string();
            match text.parse::<f64>() {
                Ok(float) if float.is_finite() => text,
                Ok(float) => write_float(float),
                Err(_) => "null".to_owned(),
            }
        }
    };
    json.push_str(&text);
}

fn write_float(float: f64) -> String {
    if float.is_nan() {
        "null".to_owned()
    } else {
        serde_json::Value::from(float.clamp(f64::MIN, f64::MAX)).to_string()
    }
}

fn write_text(json: &mut String, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    json.push_str(&serde_json::Value::from(text.as_ref()).to_string());
}
