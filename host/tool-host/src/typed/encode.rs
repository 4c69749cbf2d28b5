//! Arguments to values: JSON to what wasmtime passes to a function.
//!
//! Total: whatever the JSON, the answer is values of the type or a mismatch with the path to it. It recurses
//! as deep as the type, which is bounded, not as deep as the JSON.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::mismatch::{Mismatch, one_of, quoted};
use super::named::Named;
use super::wit_type::{Case, Field, Integer, WitType};

/// Base64 in the standard alphabet. Models leave the padding out as often as not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The largest size up to which a double holds every integer.
pub(super) const EXACT: u64 = 1 << 53;

/// Doubles above this size round to infinity as an `f32`: halfway between the largest one and the next power
/// of two.
const ABOVE_FLOAT32: f64 = 3.402_823_567_797_336_6e38;

/// The members of an object, in the order of the fields.
pub(super) fn members(fields: &[Field], json: &Value) -> Result<Vec<(String, Val)>, Mismatch> {
    let object = object(json, "an object")?;
    let is_known = |name: &String| fields.iter().any(|field| field.name == *name);
    if let Some(unknown) = object.keys().find(|name| !is_known(name)) {
        let known = one_of(fields.iter().map(|field| field.name.as_str()));
        let known = if known.is_empty() { "nothing".to_owned() } else { known };
        return Err(Mismatch::new(format!(
            "has the unknown member {}; it may have {known}",
            quoted(unknown)
        )));
    }
    fields
        .iter()
        .map(|Field { name, ty }| {
            let encoded = match object.get(name) {
                Some(member) => value(ty, member).map_err(|mismatch| mismatch.under(name))?,
                None if ty.is_nullable() => Val::Option(None),
                None => return Err(Mismatch::new(format!("misses the member {}", quoted(name)))),
            };
            Ok((name.clone(), encoded))
        })
        .collect()
}

pub(super) fn value(ty: &WitType, json: &Value) -> Result<Val, Mismatch> {
    match ty {
        WitType::Bool => json.as_bool().map(Val::Bool).ok_or_else(|| Mismatch::expected("a boolean", json)),
        WitType::Integer(kind) => integer(*kind, json),
        WitType::Float32 => float32(json),
        WitType::Float64 => float(json).map(Val::Float64),
        WitType::Char => char(json),
        WitType::String => text(json, "a string").map(|text| Val::String(text.to_owned())),
        WitType::Bytes(length) => bytes(json, *length),
        WitType::List(element, length) => list(element, *length, json),
        WitType::Map(key, entry) => map(key, entry, json),
        WitType::Record(fields) => members(fields, json).map(Val::Record),
        WitType::Tuple(types) => tuple(types, json).map(Val::Tuple),
        WitType::Variant(cases) => variant(cases, json),
        WitType::Enum(names) => name_of(names, json).map(Val::Enum),
        WitType::Option(inner) => option(inner, json).map(|some| Val::Option(some.map(Box::new))),
        WitType::Result { ok, err } => result(ok.as_deref(), err.as_deref(), json),
        WitType::Flags(names) => flags(names, json),
    }
}

fn object<'a>(json: &'a Value, wanted: &str) -> Result<&'a Map<String, Value>, Mismatch> {
    json.as_object().ok_or_else(|| Mismatch::expected(wanted, json))
}

fn array<'a>(json: &'a Value, wanted: &str) -> Result<&'a [Value], Mismatch> {
    json.as_array().map(Vec::as_slice).ok_or_else(|| Mismatch::expected(wanted, json))
}

fn text<'a>(json: &'a Value, wanted: &str) -> Result<&'a str, Mismatch> {
    json.as_str().ok_or_else(|| Mismatch::expected(wanted, json))
}

fn integer(kind: Integer, json: &Value) -> Result<Val, Mismatch> {
    let is_wide = matches!(kind, Integer::U64 | Integer::S64);
    let number = match json {
        Value::Number(number) => whole(number)?,
        Value::String(digits) if is_wide => decimal(kind, digits)?,
        other => {
            let wanted = if is_wide { "an integer, or one as a decimal string" } else { "an integer" };
            return Err(Mismatch::expected(wanted, other));
        }
    };
    let fitted = match kind {
        Integer::U8 => u8::try_from(number).map(Val::U8),
        Integer::U16 => u16::try_from(number).map(Val::U16),
        Integer::U32 => u32::try_from(number).map(Val::U32),
        Integer::U64 => u64::try_from(number).map(Val::U64),
        Integer::S8 => i8::try_from(number).map(Val::S8),
        Integer::S16 => i16::try_from(number).map(Val::S16),
        Integer::S32 => i32::try_from(number).map(Val::S32),
        Integer::S64 => i64::try_from(number).map(Val::S64),
    };
    fitted.map_err(|_| Mismatch::new(format!("is out of the range of {}", kind.name())))
}

/// A JSON number that is an integer. `5.0` is one, as JSON Schema has it, as long as a double is exact.
fn whole(number: &Number) -> Result<i128, Mismatch> {
    if let Some(number) = number.as_u64() {
        return Ok(number.into());
    }
    if let Some(number) = number.as_i64() {
        return Ok(number.into());
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT as f64 => Ok(float as i128),
        Some(float) if float.fract() == 0.0 => Err(Mismatch::new(
            "is too large to be read exactly: write all its digits, as a string if need be",
        )),
        _ => Err(Mismatch::new("is not a whole number")),
    }
}

/// An integer of 64 bits as a string, exactly as the pattern of its schema has it.
pub(super) fn decimal(kind: Integer, digits: &str) -> Result<i128, Mismatch> {
    let (unsigned, most) = match kind {
        Integer::S64 => (digits.strip_prefix('-').unwrap_or(digits), 19),
        _ => (digits, 20),
    };
    let is_decimal =
        (1..=most).contains(&unsigned.len()) && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_decimal.then(|| digits.parse().ok()).flatten();
    number.ok_or_else(|| Mismatch::new("is not an integer in decimal digits"))
}

fn float(json: &Value) -> Result<f64, Mismatch> {
    match json {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.is_finite() => Ok(float),
            _ => Err(Mismatch::new("is too large for a float: infinities cannot be passed")),
        },
        Value::String(name) if is_no_number(name) => {
            Err(Mismatch::new("expected a number: NaN and infinities cannot be passed"))
        }
        other => Err(Mismatch::expected("a number", other)),
    }
}

fn is_no_number(name: &str) -> bool {
    let name = name.trim_start_matches(['+', '-']);
    ["nan", "inf", "infinity"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn float32(json: &Value) -> Result<Val, Mismatch> {
    let float = float(json)?;
    if float.abs() >= ABOVE_FLOAT32 {
        return Err(Mismatch::new("is too large for an f32: infinities cannot be passed"));
    }
    let float = float as f32;
    Ok(Val::Float32(float))
}

fn char(json: &Value) -> Result<Val, Mismatch> {
    let text = text(json, "a string of one character")?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) => Ok(Val::Char(only)),
        (None, _) => Err(Mismatch::new("expected a string of one character, found an empty one")),
        (Some(_), Some(_)) => Err(Mismatch::new("expected a string of one character, found a longer one")),
    }
}

fn bytes(json: &Value, length: Option<u32>) -> Result<Val, Mismatch> {
    let text = text(json, "bytes as a base64 string")?;
    let bytes = BASE64.decode(text).map_err(|error| Mismatch::new(format!("is not base64: {error}")))?;
    check_length(bytes.len(), length, "bytes")?;
    Ok(listed(length, bytes.into_iter().map(Val::U8).collect()))
}

fn list(element: &WitType, length: Option<u32>, json: &Value) -> Result<Val, Mismatch> {
    let items = array(json, "an array")?;
    check_length(items.len(), length, "items")?;
    let values = items
        .iter()
        .enumerate()
        .map(|(position, item)| value(element, item).map_err(|mismatch| mismatch.under(position)))
        .collect::<Result<_, _>>()?;
    Ok(listed(length, values))
}

fn listed(length: Option<u32>, values: Vec<Val>) -> Val {
    if length.is_some() { Val::FixedLengthList(values) } else { Val::List(values) }
}

fn check_length(found: usize, wanted: Option<u32>, of: &str) -> Result<(), Mismatch> {
    match wanted {
        Some(wanted) if usize::try_from(wanted) != Ok(found) => {
            Err(Mismatch::new(format!("has {found} {of} and must have {wanted}")))
        }
        _ => Ok(()),
    }
}

fn map(key: &WitType, entry: &WitType, json: &Value) -> Result<Val, Mismatch> {
    if *key == WitType::String {
        let entries = object(json, "an object")?.iter().map(|(name, member)| {
            let member = value(entry, member).map_err(|mismatch| mismatch.under(name))?;
            Ok((Val::String(name.clone()), member))
        });
        return entries.collect::<Result<_, _>>().map(Val::Map);
    }
    let pairs = array(json, "an array of pairs of a key and a value")?.iter().enumerate();
    let entries = pairs.map(|(position, pair)| {
        let Value::Array(parts) = pair else {
            return Err(Mismatch::expected("a pair of a key and a value", pair).under(position));
        };
        let [name, member] = parts.as_slice() else {
            return Err(Mismatch::new("expected a pair of a key and a value").under(position));
        };
        let name = value(key, name).map_err(|mismatch| mismatch.under(0).under(position))?;
        let member = value(entry, member).map_err(|mismatch| mismatch.under(1).under(position))?;
        Ok((name, member))
    });
    entries.collect::<Result<_, _>>().map(Val::Map)
}

fn tuple(types: &[WitType], json: &Value) -> Result<Vec<Val>, Mismatch> {
    let items = array(json, "an array")?;
    if items.len() != types.len() {
        return Err(Mismatch::new(format!("has {} items and must have {}", items.len(), types.len())));
    }
    let pairs = types.iter().zip(items).enumerate();
    pairs.map(|(position, (ty, item))| value(ty, item).map_err(|mismatch| mismatch.under(position))).collect()
}

fn variant(cases: &Named<Case>, json: &Value) -> Result<Val, Mismatch> {
    let (name, payload) = chosen(json)?;
    let Some(case) = cases.find(name) else {
        let known = one_of(cases.iter().map(|case| case.name.as_str()));
        return Err(Mismatch::new(format!(
            "has the unknown case {}; it may be one of {known}",
            quoted(name)
        )));
    };
    Ok(Val::Variant(case.name.clone(), arm(name, case.ty.as_ref(), payload)?))
}

fn result(ok: Option<&WitType>, err: Option<&WitType>, json: &Value) -> Result<Val, Mismatch> {
    let (name, payload) = chosen(json)?;
    match name {
        "ok" => Ok(Val::Result(Ok(arm(name, ok, payload)?))),
        "err" => Ok(Val::Result(Err(arm(name, err, payload)?))),
        other => Err(Mismatch::new(format!(
            "has the unknown case {}; it may be one of \"ok\", \"err\"",
            quoted(other)
        ))),
    }
}

/// The case that was written: its name alone, or the one member of an object.
fn chosen(json: &Value) -> Result<(&str, Option<&Value>), Mismatch> {
    const WANTED: &str = "a case: its name, or an object with its name and value";
    match json {
        Value::String(name) => Ok((name, None)),
        Value::Object(members) => {
            let mut members = members.iter();
            match (members.next(), members.next()) {
                (Some((name, payload)), None) => Ok((name, Some(payload))),
                (None, _) => Err(Mismatch::new(format!("expected {WANTED}, found an empty object"))),
                (Some(_), Some(_)) => Err(Mismatch::new(format!("expected {WANTED}, found several members"))),
            }
        }
        other => Err(Mismatch::expected(WANTED, other)),
    }
}

fn arm(name: &str, ty: Option<&WitType>, payload: Option<&Value>) -> Result<Option<Box<Val>>, Mismatch> {
    match (ty, payload) {
        (None, None) => Ok(None),
        (Some(ty), Some(payload)) => {
            let payload = value(ty, payload).map_err(|mismatch| mismatch.under(name))?;
            Ok(Some(Box::new(payload)))
        }
        (None, Some(_)) => Err(Mismatch::new(format!("its case {0} has no value: write {0}", quoted(name)))),
        (Some(_), None) => {
            Err(Mismatch::new(format!("its case {0} needs a value: write {{{0}: …}}", quoted(name))))
        }
    }
}

fn name_of(names: &Named<String>, json: &Value) -> Result<String, Mismatch> {
    let found = text(json, "a string")?;
    names.find(found).cloned().ok_or_else(|| {
        let known = one_of(names.iter().map(String::as_str));
        Mismatch::new(format!("is {}, not one of {known}", quoted(found)))
    })
}

fn option(inner: &WitType, json: &Value) -> Result<Option<Val>, Mismatch> {
    if json.is_null() {
        return Ok(None);
    }
    if !inner.is_nullable() {
        return value(inner, json).map(Some);
    }
    const WANTED: &str = "null or an object with the one member \"some\"";
    let members = object(json, WANTED)?;
    match members.get("some") {
        Some(some) if members.len() == 1 => {
            value(inner, some).map(Some).map_err(|mismatch| mismatch.under("some"))
        }
        _ => Err(Mismatch::new(format!("expected {WANTED}"))),
    }
}

/// A set: in the type's order, and named twice is the same as once.
fn flags(names: &Named<String>, json: &Value) -> Result<Val, Mismatch> {
    let items = array(json, "an array of names")?;
    let found = items
        .iter()
        .enumerate()
        .map(|(position, item)| name_of(names, item).map_err(|mismatch| mismatch.under(position)))
        .collect::<Result<std::collections::HashSet<_>, _>>()?;
    Ok(Val::Flags(names.iter().filter(|name| found.contains(*name)).cloned().collect()))
}

impl Integer {
    fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
        }
    }
}
