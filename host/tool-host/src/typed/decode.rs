//! Values to answers: what a function returned, as JSON.
//!
//! Total, as the encoder is: a value that its type does not have is a mismatch, never a panic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::encode::EXACT;
use super::mismatch::{Mismatch, quoted};
use super::named::Named;
use super::wit_type::{Case, Field, WitType};

pub(super) fn value(ty: &WitType, val: &Val) -> Result<Value, Mismatch> {
    match (ty, val) {
        (WitType::Bool, Val::Bool(bool)) => Ok(Value::Bool(*bool)),
        (WitType::Integer(_), integer) => self::integer(integer),
        (WitType::Float32, Val::Float32(float)) => number(shortest(*float)),
        (WitType::Float64, Val::Float64(float)) => number(*float),
        (WitType::Char, Val::Char(char)) => Ok(Value::String(char.to_string())),
        (WitType::String, Val::String(text)) => Ok(Value::String(text.clone())),
        (WitType::Bytes(None), Val::List(items)) | (WitType::Bytes(Some(_)), Val::FixedLengthList(items)) => {
            bytes(items)
        }
        (WitType::List(element, None), Val::List(items))
        | (WitType::List(element, Some(_)), Val::FixedLengthList(items)) => {
            indexed(items.iter().map(|item| (&**element, item)))
        }
        (WitType::Map(key, entry), Val::Map(entries)) => map(key, entry, entries),
        (WitType::Record(fields), Val::Record(values)) => record(fields, values),
        (WitType::Tuple(types), Val::Tuple(values)) if types.len() == values.len() => {
            indexed(types.iter().zip(values))
        }
        (WitType::Variant(cases), Val::Variant(name, value)) => variant(cases, name, value.as_deref()),
        (WitType::Enum(names), Val::Enum(name)) if names.find(name).is_some() => {
            Ok(Value::String(name.clone()))
        }
        (WitType::Option(inner), Val::Option(some)) => option(inner, some.as_deref()),
        (WitType::Result { ok, .. }, Val::Result(Ok(value))) => arm("ok", ok.as_deref(), value.as_deref()),
        (WitType::Result { err, .. }, Val::Result(Err(value))) => {
            arm("err", err.as_deref(), value.as_deref())
        }
        (WitType::Flags(names), Val::Flags(set)) if set.iter().all(|name| names.find(name).is_some()) => {
            Ok(set.iter().cloned().map(Value::String).collect())
        }
        _ => Err(unfit()),
    }
}

/// What a case or an arm holds, if its type says that it holds something.
pub(super) fn payload(ty: Option<&WitType>, val: Option<&Val>) -> Result<Option<Value>, Mismatch> {
    match (ty, val) {
        (None, None) => Ok(None),
        (Some(ty), Some(val)) => value(ty, val).map(Some),
        _ => Err(unfit()),
    }
}

fn unfit() -> Mismatch {
    Mismatch::new("is not a value of the type that the component declares")
}

fn integer(val: &Val) -> Result<Value, Mismatch> {
    Ok(match val {
        Val::U8(number) => (*number).into(),
        Val::U16(number) => (*number).into(),
        Val::U32(number) => (*number).into(),
        Val::S8(number) => (*number).into(),
        Val::S16(number) => (*number).into(),
        Val::S32(number) => (*number).into(),
        // Many readers of JSON keep numbers as doubles.
        Val::U64(number) if *number > EXACT => number.to_string().into(),
        Val::S64(number) if number.unsigned_abs() > EXACT => number.to_string().into(),
        Val::U64(number) => (*number).into(),
        Val::S64(number) => (*number).into(),
        _ => return Err(unfit()),
    })
}

fn number(float: f64) -> Result<Value, Mismatch> {
    let refused = |what| Err(Mismatch::new(format!("is {what}, which JSON cannot carry")));
    match Number::from_f64(float) {
        Some(number) => Ok(Value::Number(number)),
        None if float.is_nan() => refused("NaN"),
        None if float.is_sign_negative() => refused("-infinity"),
        None => refused("infinity"),
    }
}

/// The double that is written as shortly as the `f32` is: 0.1 and not 0.10000000149011612.
fn shortest(float: f32) -> f64 {
    match float.to_string().parse::<f64>() {
        Ok(short) if (short as f32).to_bits() == float.to_bits() => short,
        _ => float.into(),
    }
}

fn bytes(items: &[Val]) -> Result<Value, Mismatch> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Ok(*byte) } else { Err(unfit()) };
    let bytes = items.iter().map(byte).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::String(STANDARD.encode(bytes)))
}

fn indexed<'a>(items: impl Iterator<Item = (&'a WitType, &'a Val)>) -> Result<Value, Mismatch> {
    let decoded = items
        .enumerate()
        .map(|(position, (ty, item))| value(ty, item).map_err(|mismatch| mismatch.under(position)));
    decoded.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Of several entries with one key the last counts, as the component model has it.
fn map(key: &WitType, entry: &WitType, entries: &[(Val, Val)]) -> Result<Value, Mismatch> {
    if *key == WitType::String {
        let mut members = Map::new();
        for (name, member) in entries {
            let Val::String(name) = name else { return Err(unfit()) };
            let member = value(entry, member).map_err(|mismatch| mismatch.under(name))?;
            members.insert(name.clone(), member);
        }
        return Ok(Value::Object(members));
    }
    let pairs = entries.iter().enumerate().map(|(position, (name, member))| {
        let pair = indexed([(key, name), (entry, member)].into_iter());
        pair.map_err(|mismatch| mismatch.under(position))
    });
    pairs.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// An option that is none is left out.
fn record(fields: &[Field], values: &[(String, Val)]) -> Result<Value, Mismatch> {
    if fields.len() != values.len() {
        return Err(unfit());
    }
    let mut members = Map::new();
    for (field, (name, val)) in fields.iter().zip(values) {
        if field.name != *name {
            return Err(unfit());
        }
        match val {
            Val::Option(None) if field.ty.is_nullable() => {}
            val => {
                let member = value(&field.ty, val).map_err(|mismatch| mismatch.under(name))?;
                members.insert(name.clone(), member);
            }
        }
    }
    Ok(Value::Object(members))
}

fn variant(cases: &Named<Case>, name: &str, val: Option<&Val>) -> Result<Value, Mismatch> {
    match cases.find(name) {
        Some(case) => arm(name, case.ty.as_ref(), val),
        None => Err(Mismatch::new(format!("has the case {}, which its type does not have", quoted(name)))),
    }
}

/// The case's name, or an object with its name and what it holds.
fn arm(name: &str, ty: Option<&WitType>, val: Option<&Val>) -> Result<Value, Mismatch> {
    Ok(match payload(ty, val).map_err(|mismatch| mismatch.under(name))? {
        None => Value::String(name.to_owned()),
        Some(payload) => Value::Object(Map::from_iter([(name.to_owned(), payload)])),
    })
}

fn option(inner: &WitType, some: Option<&Val>) -> Result<Value, Mismatch> {
    let Some(some) = some else { return Ok(Value::Null) };
    if !inner.is_nullable() {
        return value(inner, some);
    }
    let some = value(inner, some).map_err(|mismatch| mismatch.under("some"))?;
    Ok(Value::Object(Map::from_iter([("some".to_owned(), some)])))
}
