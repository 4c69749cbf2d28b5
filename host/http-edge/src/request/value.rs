//! Values that were checked, as the types of fields.

use serde_json::{Map, Value};

use super::field::Field;

/// What a field holds.
pub trait FromJson: Sized {
    /// The value, if it is one of these; of an absent one what that means.
    fn from_json(value: Option<Value>) -> Option<Self>;
}

/// The value of a field of that object, if it is one. One that is absent has its default.
pub fn take<T: FromJson>(field: &Field, object: Option<&mut Value>) -> Option<T> {
    let given =
        object.and_then(Value::as_object_mut).and_then(|fields: &mut Map<_, _>| fields.remove(field.name));
    T::from_json(given.or_else(|| field.default.map(|default| default())))
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: Option<Value>) -> Option<Self> {
        match value {
            Some(value) => T::from_json(Some(value)).map(Some),
            None => Some(None),
        }
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Option<Value>) -> Option<Self> {
        let Some(Value::Array(items)) = value else { return None };
        items.into_iter().map(|item| T::from_json(Some(item))).collect()
    }
}

impl FromJson for String {
    fn from_json(value: Option<Value>) -> Option<Self> {
        let Some(Value::String(text)) = value else { return None };
        Some(text)
    }
}

impl FromJson for bool {
    fn from_json(value: Option<Value>) -> Option<Self> {
        value?.as_bool()
    }
}

impl FromJson for f64 {
    fn from_json(value: Option<Value>) -> Option<Self> {
        value?.as_f64()
    }
}

/// A fraction is cut off.
macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl FromJson for $number {
            fn from_json(value: Option<Value>) -> Option<Self> {
                let value = value?;
                value.as_u64().and_then(|number| number.try_into().ok()).or(value.as_f64().map(|number| number as Self))
            }
        }
    )*};
}
whole_numbers!(u32, u64, usize);

impl FromJson for Value {
    fn from_json(value: Option<Value>) -> Option<Self> {
        Some(value.unwrap_or_default())
    }
}
