//! The values of keywords, read or refused with the place they stand at.

use serde_json::{Map, Value};

use super::location::{At, wrong};
use crate::brief::brief;
use crate::number::Exact;
use crate::syntax::Keywords;
use crate::validation::rules::{Keyword, TYPES, Types};

/// Members of a fixed value that weigh as much as a part.
const VALUES_PER_PART: u64 = 10;

pub(super) fn text_of<'a>(value: &'a Value, at: &At<'_>) -> Result<&'a str, String> {
    let refused = || wrong(at, format!("is {}, not a string", brief(value)));
    value.as_str().ok_or_else(refused)
}

pub(super) fn list_of<'a>(value: &'a Value, at: &At<'_>) -> Result<&'a Vec<Value>, String> {
    let refused = || wrong(at, format!("is {}, not an array", brief(value)));
    value.as_array().ok_or_else(refused)
}

pub(super) fn object_of<'a>(value: &'a Value, at: &At<'_>) -> Result<&'a Map<String, Value>, String> {
    let refused = || wrong(at, format!("is {}, not an object", brief(value)));
    value.as_object().ok_or_else(refused)
}

pub(super) fn texts_of(value: &Value, at: &At<'_>) -> Result<Vec<String>, String> {
    let texts = list_of(value, at)?.iter().enumerate();
    texts.map(|(index, text)| text_of(text, &At::Index(at, index)).map(str::to_owned)).collect()
}

/// The keywords that bound a length or a number.
pub(super) fn counts(members: Keywords<'_>, at: &At<'_>) -> Result<Vec<Keyword>, String> {
    let mut found = Vec::new();
    let mut bounded = |least: &str, most: &str, keyword: fn(u64, u64) -> Keyword| {
        if members.has(&[least, most]) {
            let (least, most) = bounds(members, least, most, at)?;
            found.push(keyword(least, most));
        }
        Ok::<_, String>(())
    };
    bounded("minLength", "maxLength", |least, most| Keyword::Length { least, most })?;
    bounded("minItems", "maxItems", |least, most| Keyword::ItemCount { least, most })?;
    bounded("minProperties", "maxProperties", |least, most| Keyword::MemberCount { least, most })?;
    Ok(found)
}

pub(super) fn bounds(
    members: Keywords<'_>,
    least: &str,
    most: &str,
    at: &At<'_>,
) -> Result<(u64, u64), String> {
    let read = |key: &str, or: u64| match members.get(key) {
        None => Ok(or),
        Some(value) => count_of(value).ok_or_else(|| {
            wrong(&At::Key(at, key), format!("is {}, not a whole number from 0 on", brief(value)))
        }),
    };
    Ok((read(least, 0)?, read(most, u64::MAX)?))
}

fn count_of(value: &Value) -> Option<u64> {
    let Value::Number(number) = value else { return None };
    match Exact::of(number) {
        // More than there can ever be is as good as the most there is.
        Exact::Whole(count) if count >= 0 => Some(u64::try_from(count).unwrap_or(u64::MAX)),
        Exact::Other(bits) if f64::from_bits(bits) >= 1e38 => Some(u64::MAX),
        Exact::Whole(_) | Exact::Other(_) => None,
    }
}

pub(super) fn types(value: &Value, at: &At<'_>) -> Result<Types, String> {
    let mut types = Types::default();
    let mut allow = |value: &Value, at: &At<'_>| -> Result<(), String> {
        let named = TYPES.iter().zip(&mut types.0).find(|(name, _)| value == *name);
        let unknown = || {
            let (last, others) = (TYPES[TYPES.len() - 1], TYPES[..TYPES.len() - 1].join("\", \""));
            wrong(at, format!("is {}, not one of \"{others}\" and \"{last}\"", brief(value)))
        };
        *named.ok_or_else(unknown)?.1 = true;
        Ok(())
    };
    match value {
        Value::Array(several) if !several.is_empty() => {
            several.iter().enumerate().try_for_each(|(index, one)| allow(one, &At::Index(at, index)))?;
        }
        one => allow(one, at)?,
    }
    Ok(types)
}

/// What comparing with a value weighs.
pub(super) fn weigh_value(value: &Value) -> u64 {
    fn members(value: &Value) -> u64 {
        1 + match value {
            Value::Array(parts) => parts.iter().map(members).sum(),
            Value::Object(parts) => parts.values().map(members).sum(),
            Value::String(text) => text.len() as u64 / 64,
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
    members(value) / VALUES_PER_PART
}
