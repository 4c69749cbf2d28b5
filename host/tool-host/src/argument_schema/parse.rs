//! JSON text of a guest as a value, within a budget of memory: a megabyte of text can be a hundred of values.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Most memory of one value. Reserved for what is checked outside of the serving threads, so as many of them
/// exist at once as there are permits for such checks.
const VALUE_BYTES: usize = 56 << 20;

/// What one member of an array may take: a list that grows has up to twice the room it needs, and while it
/// moves it has both.
const MEMBER_BYTES: usize = 3 * size_of::<Value>();

/// What the first member of an object takes, the node of a tree, and what each one takes in nodes half full.
const FIRST_ENTRY_BYTES: usize = 640;
const ENTRY_BYTES: usize = 112;

/// Why there is no value.
#[derive(Debug)]
pub(crate) enum ParseError {
    /// The text is not JSON.
    Syntax(serde_json::Error),
    /// The value would need more memory than it may have.
    TooLarge,
}

/// Reads a value.
pub(crate) fn parse(text: &str) -> Result<Value, ParseError> {
    let mut left = Budget { bytes: VALUE_BYTES, exceeded: false };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Metered(&mut left).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(value) => Ok(value),
        Err(_) if left.exceeded => Err(ParseError::TooLarge),
        Err(error) => Err(ParseError::Syntax(error)),
    }
}

struct Budget {
    bytes: usize,
    exceeded: bool,
}

impl Budget {
    fn spend<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => {
                self.exceeded = true;
                Err(E::custom("too large"))
            }
        }
    }
}

struct Metered<'a>(&'a mut Budget);

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

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.spend(value.len())?;
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
            self.0.spend(key.len() + if map.is_empty() { FIRST_ENTRY_BYTES } else { ENTRY_BYTES })?;
            map.insert(key, members.next_value_seed(Metered(self.0))?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::argument_schema::testing::any_value;

    #[test]
    fn a_value_that_would_need_too_much_memory_is_refused_while_it_is_read() {
        let objects = format!("[{}{{}}]", r#"{"a":0},"#.repeat(130_000));
        assert!(matches!(parse(&objects), Err(ParseError::TooLarge)));
        let numbers = format!("[{}0]", "0,".repeat(500_000));
        assert!(parse(&numbers).is_ok(), "a megabyte of numbers fits");
    }

    #[test]
    fn what_is_not_json_is_said_to_be_none() {
        for text in ["", "[1", "1 2", "nul", &"[".repeat(1_000)] {
            assert!(matches!(parse(text), Err(ParseError::Syntax(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(value in any_value()) {
            prop_assert_eq!(parse(&value.to_string()).unwrap(), value);
        }
    }

    #[test]
    fn of_members_of_one_name_the_last_counts() {
        assert_eq!(parse(r#"{"a":1,"a":2}"#).unwrap(), json!({"a": 2}));
    }
}
