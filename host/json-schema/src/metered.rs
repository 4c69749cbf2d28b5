//! Makes values of JSON as `serde_json` does, and counts the memory of each before it is made. Texts are not
//! counted: they are as long as they were in the JSON.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::PRIVATE_NAMES;

/// What one member of an array may take: a list that grows has up to twice the room it needs, and while it
/// moves it has both.
const MEMBER_BYTES: usize = 3 * size_of::<Value>();

/// What the first member of an object takes: the node of a tree.
pub const FIRST_ENTRY_BYTES: usize = 640;

/// What each other member of an object takes, in nodes half full.
pub const ENTRY_BYTES: usize = 112;

/// What values may still take.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) left: usize,
    /// Whether reading ended because more would have been taken.
    pub(crate) exceeded: bool,
}

impl Meter {
    /// Counts memory that is about to be taken.
    fn spend<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.exceeded = true;
                Err(E::custom("too large"))
            }
        }
    }
}

/// Reads one value within what is left.
pub(crate) struct Metered<'a>(pub(crate) &'a mut Meter);

impl<'de> DeserializeSeed<'de> for Metered<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metered<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_element_seed(Metered(self.0))? {
            self.0.spend(if list.is_empty() { 4 * size_of::<Value>() } else { MEMBER_BYTES })?;
            list.push(member);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if key.starts_with(PRIVATE_NAMES) {
                return Err(A::Error::custom(format_args!("no name may begin with {PRIVATE_NAMES}")));
            }
            self.0.spend(if map.is_empty() { FIRST_ENTRY_BYTES } else { ENTRY_BYTES })?;
            let value = members.next_value_seed(Metered(self.0))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
