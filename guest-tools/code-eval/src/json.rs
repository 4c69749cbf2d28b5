//! Values in and out as JSON: answers of tools become values, values become arguments and results.
//!
//! Writing has bounds that the engine's own `JSON.stringify` has not, in bytes and in depth, and finds a
//! place in JSON for what the other leaves out; the documentation of the crate has the rules.

use std::fmt;

use boa_engine::builtins::error::Error as ErrorData;
use boa_engine::builtins::promise::PromiseState;
use boa_engine::object::builtins::{JsArray, JsFunction, JsMap, JsPromise, JsSet};
use boa_engine::property::PropertyKey;
use boa_engine::{
    Context, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, JsVariant, js_string,
};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::errors;
use crate::rejections::Rejections;
use crate::text::cut;

/// Most arrays and objects within one another: what readers of JSON, `serde_json` first, take.
pub(crate) const MOST_DEPTH: usize = 100;

/// Reads JSON as a value.
pub(crate) fn read(text: &str, context: &mut Context) -> JsResult<JsValue> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Reader(context).deserialize(&mut reader);
    value.and_then(|value| reader.end().map(|()| value)).map_err(|problem| {
        JsNativeError::syntax().with_message(format!("this is not JSON: {problem}")).into()
    })
}

/// Makes values while it reads.
struct Reader<'a>(&'a mut Context);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = JsValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsValue, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = JsValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<JsValue, E> {
        Ok(JsValue::null())
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsValue, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsValue, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsValue, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsValue, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<JsValue, E> {
        Ok(JsString::from(value).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsValue, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Reader(self.0))? {
            values.push(value);
        }
        Ok(JsArray::from_iter(values, self.0).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsValue, A::Error> {
        let object = JsObject::with_object_proto(self.0.intrinsics());
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Reader(self.0))?;
            object
                .create_data_property_or_throw(JsString::from(key), value, self.0)
                .map_err(A::Error::custom)?;
        }
        Ok(object.into())
    }
}

/// Why a value cannot be written.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The value has no place in JSON: it contains itself, is too deep, or is still awaited.
    Invalid(String),
    /// The JSON text is longer than that many bytes.
    TooLong(usize),
    /// Code of the script's that takes part, such as `toJSON`, threw this.
    Thrown(JsError),
}

impl From<JsError> for Refusal {
    fn from(error: JsError) -> Self {
        Self::Thrown(error)
    }
}

impl Refusal {
    /// What a script sees that wanted to have `what` written.
    pub(crate) fn into_error(self, what: &str) -> JsError {
        let message = match self {
            Self::Invalid(reason) => format!("{what} cannot be put as JSON: {reason}"),
            Self::TooLong(most) => format!("{what} would be longer than {most} bytes"),
            Self::Thrown(error) => return error,
        };
        JsNativeError::typ().with_message(message).into()
    }
}

/// Writes a value as JSON. What is nothing is null.
pub(crate) fn write(value: &JsValue, most_bytes: usize, context: &mut Context) -> Result<String, Refusal> {
    match write_some(value, most_bytes, context) {
        (text, Ok(true)) => Ok(text),
        (_, Ok(false)) => Ok("null".to_owned()),
        (_, Err(refusal)) => Err(refusal),
    }
}

/// Writes as much of a value as fits, and says whether that was all: false is for what is left out.
pub(crate) fn write_some(
    value: &JsValue,
    most_bytes: usize,
    context: &mut Context,
) -> (String, Result<bool, Refusal>) {
    let mut writer = Writer { text: String::new(), most_bytes, path: Vec::new() };
    let written = writer.write(value, "", context);
    (writer.text, written)
}

struct Writer {
    text: String,
    most_bytes: usize,
    /// The arrays and objects that the value at hand is in.
    path: Vec<JsObject>,
}

impl Writer {
    /// Writes a value, or nothing for what is left out: then it returns false. `key` is where the value was
    /// found, for `toJSON`.
    fn write(&mut self, value: &JsValue, key: &str, context: &mut Context) -> Result<bool, Refusal> {
        match value.variant() {
            JsVariant::Object(object) => {
                // Functions may have a `toJSON` too, and nobody gives them one.
                if object.is_callable() {
                    return Ok(false);
                }
                let to_json = object.get(js_string!("toJSON"), context)?;
                match to_json.as_function() {
                    Some(to_json) => self.write_replaced(&object, &to_json, key, context),
                    None => self.write_object(&object, key, context),
                }
            }
            _ => self.write_primitive(value, context),
        }
    }

    fn write_primitive(&mut self, value: &JsValue, context: &mut Context) -> Result<bool, Refusal> {
        match value.variant() {
            JsVariant::Undefined | JsVariant::Symbol(_) | JsVariant::Object(_) => return Ok(false),
            JsVariant::Null => self.push("null")?,
            JsVariant::Boolean(value) => self.push(if value { "true" } else { "false" })?,
            JsVariant::Float64(number) if !number.is_finite() => self.push("null")?,
            JsVariant::Integer32(_) | JsVariant::Float64(_) => {
                let digits = value.to_string(context)?.to_std_string_lossy();
                self.push(&digits)?;
            }
            JsVariant::BigInt(number) => self.push_text(&number.to_string())?,
            JsVariant::String(text) => self.push_text(&text.to_std_string_lossy())?,
        }
        Ok(true)
    }

    /// Writes what an object says stands for it.
    fn write_replaced(
        &mut self,
        object: &JsObject,
        to_json: &JsFunction,
        key: &str,
        context: &mut Context,
    ) -> Result<bool, Refusal> {
        let replaced = to_json.call(&object.clone().into(), &[JsString::from(key).into()], context)?;
        match replaced.as_object() {
            Some(replaced) if replaced.is_callable() => Ok(false),
            Some(replaced) => self.write_object(&replaced, key, context),
            None => self.write_primitive(&replaced, context),
        }
    }

    fn write_object(&mut self, object: &JsObject, key: &str, context: &mut Context) -> Result<bool, Refusal> {
        if object.is::<ErrorData>() {
            let text = errors::describe_object(object, context);
            self.push_text(&text)?;
            return Ok(true);
        }
        if self.path.iter().any(|outer| JsObject::equals(outer, object)) {
            return Err(Refusal::Invalid("it contains itself".to_owned()));
        }
        if self.path.len() == MOST_DEPTH {
            return Err(Refusal::Invalid(format!("it is more than {MOST_DEPTH} arrays and objects deep")));
        }
        self.path.push(object.clone());
        let is_written = self.write_contents(object, key, context)?;
        self.path.pop();
        Ok(is_written)
    }

    fn write_contents(
        &mut self,
        object: &JsObject,
        key: &str,
        context: &mut Context,
    ) -> Result<bool, Refusal> {
        if let Ok(promise) = JsPromise::from_object(object.clone()) {
            return match promise.state() {
                PromiseState::Fulfilled(value) => self.write(&value, key, context),
                PromiseState::Rejected(reason) => {
                    Rejections::remove(object, context);
                    Err(Refusal::Thrown(JsError::from_opaque(reason)))
                }
                PromiseState::Pending => Err(Refusal::Invalid(
                    "it holds a promise that is not settled: await it, with Promise.all if there are several"
                        .to_owned(),
                )),
            };
        }
        if let Ok(map) = JsMap::from_object(object.clone()) {
            let mut entries = Vec::new();
            map.for_each_native(|key, value| {
                entries.push((key, value));
                Ok(())
            })?;
            let keys = entries.into_iter().map(|(key, value)| Ok((key.to_string(context)?, value)));
            let entries = keys.collect::<JsResult<Vec<_>>>()?;
            self.write_entries(
                entries.into_iter().map(|(key, value)| (key, move |_: &mut Context| Ok(value))),
                context,
            )?;
        } else if let Ok(set) = JsSet::from_object(object.clone()) {
            let mut items = Vec::new();
            set.for_each_native(|item| {
                items.push(item);
                Ok(())
            })?;
            self.write_items(items.into_iter().map(|item| move |_: &mut Context| Ok(item)), context)?;
        } else if object.is_array() {
            let length = JsArray::from_object(object.clone())?.length(context)?;
            self.write_items(
                (0..length).map(|index| move |context: &mut Context| object.get(index, context)),
                context,
            )?;
        } else {
            let keys = enumerable_keys(object, context)?;
            let entries = keys.into_iter().map(|key| {
                let of = key.clone();
                (key, move |context: &mut Context| object.get(of, context))
            });
            self.write_entries(entries, context)?;
        }
        Ok(true)
    }

    fn write_items<Get>(
        &mut self,
        items: impl Iterator<Item = Get>,
        context: &mut Context,
    ) -> Result<(), Refusal>
    where
        Get: FnOnce(&mut Context) -> JsResult<JsValue>,
    {
        self.push("[")?;
        for (index, get) in items.enumerate() {
            if index > 0 {
                self.push(",")?;
            }
            let item = get(context)?;
            if !self.write(&item, &index.to_string(), context)? {
                self.push("null")?;
            }
        }
        self.push("]")
    }

    fn write_entries<Get>(
        &mut self,
        entries: impl Iterator<Item = (JsString, Get)>,
        context: &mut Context,
    ) -> Result<(), Refusal>
    where
        Get: FnOnce(&mut Context) -> JsResult<JsValue>,
    {
        self.push("{")?;
        let mut is_first = true;
        for (key, get) in entries {
            let value = get(context)?;
            let key = key.to_std_string_lossy();
            let before = self.text.len();
            if !is_first {
                self.push(",")?;
            }
            self.push_text(&key)?;
            self.push(":")?;
            if self.write(&value, &key, context)? {
                is_first = false;
            } else {
                self.text.truncate(before);
            }
        }
        self.push("}")
    }

    fn push_text(&mut self, text: &str) -> Result<(), Refusal> {
        let quoted = serde_json::to_string(text).map_err(|problem| Refusal::Invalid(problem.to_string()))?;
        self.push(&quoted)
    }

    fn push(&mut self, text: &str) -> Result<(), Refusal> {
        let room = self.most_bytes.saturating_sub(self.text.len());
        if text.len() > room {
            self.text.push_str(cut(text, room));
            return Err(Refusal::TooLong(self.most_bytes));
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// The keys that `Object.keys` would give.
fn enumerable_keys(object: &JsObject, context: &mut Context) -> JsResult<Vec<JsString>> {
    let constructor = context.intrinsics().constructors().object().constructor();
    let keys = constructor.get(js_string!("keys"), context)?;
    let Some(keys) = keys.as_function() else { return Ok(Vec::new()) };
    let keys = keys.call(&constructor.into(), &[object.clone().into()], context)?.to_object(context)?;
    let length = JsArray::from_object(keys.clone())?.length(context)?;
    (0..length).map(|index| keys.get(PropertyKey::from(index), context)?.to_string(context)).collect()
}
