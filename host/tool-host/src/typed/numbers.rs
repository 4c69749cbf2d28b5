//! Arguments as rules read them: integers of 64 bits may come as texts of digits, which are numbers to the
//! component. A bound such as `maximum` says nothing of a text, so a rule that is held against the text would
//! let any number pass.

use serde_json::Value;

use super::encode::decimal;
use super::wit_type::{Field, Integer, WitType};

/// Replaces the texts among the members that stand for integers by those. What does not fit its type stays as
/// it is: the encoder refuses it.
pub(super) fn members(fields: &[Field], json: &mut Value) {
    let Value::Object(members) = json else { return };
    for Field { name, ty } in fields {
        if let Some(member) = members.get_mut(name) {
            value(ty, member);
        }
    }
}

pub(super) fn value(ty: &WitType, json: &mut Value) {
    match (ty, json) {
        (WitType::Integer(kind @ (Integer::U64 | Integer::S64)), json) => {
            if let Some(number) = json.as_str().and_then(|digits| number(*kind, digits)) {
                *json = number;
            }
        }
        (WitType::List(element, _), Value::Array(items)) => {
            items.iter_mut().for_each(|item| value(element, item));
        }
        (WitType::Map(_, entry), Value::Object(members)) => {
            members.values_mut().for_each(|member| value(entry, member));
        }
        (WitType::Map(key, entry), Value::Array(pairs)) => {
            for parts in pairs.iter_mut().filter_map(Value::as_array_mut) {
                parts.iter_mut().zip([key, entry]).for_each(|(part, ty)| value(ty, part));
            }
        }
        (WitType::Record(fields), json) => members(fields, json),
        (WitType::Tuple(types), Value::Array(items)) => {
            items.iter_mut().zip(types).for_each(|(item, ty)| value(ty, item));
        }
        (WitType::Variant(cases), Value::Object(chosen)) => {
            for (name, payload) in chosen {
                if let Some(ty) = cases.find(name).and_then(|case| case.ty.as_ref()) {
                    value(ty, payload);
                }
            }
        }
        (WitType::Option(inner), Value::Object(some)) if inner.is_nullable() => {
            if let Some(some) = some.get_mut("some") {
                value(inner, some);
            }
        }
        (WitType::Option(inner), json) => value(inner, json),
        (WitType::Result { ok, err }, Value::Object(chosen)) => {
            for (name, ty) in [("ok", ok), ("err", err)] {
                if let (Some(ty), Some(payload)) = (ty, chosen.get_mut(name)) {
                    value(ty, payload);
                }
            }
        }
        _ => {}
    }
}

/// The integer that a text stands for, if 64 bits hold it.
fn number(kind: Integer, digits: &str) -> Option<Value> {
    let number = decimal(kind, digits).ok()?;
    u64::try_from(number).map(Value::from).or_else(|_| i64::try_from(number).map(Value::from)).ok()
}
