//! Which values are the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde_json::Value;

use super::{Check, Holds, text_steps};
use crate::number::Exact;
use crate::validation::fuel::Exhausted;

impl Check<'_, '_> {
    /// Whether two values are the same in JSON Schema's sense.
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Holds {
        self.fuel.spend(1)?;
        match (a, b) {
            (Value::Null, Value::Null) => Ok(true),
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Value::Number(a), Value::Number(b)) => Ok(Exact::of(a) == Exact::of(b)),
            (Value::String(a), Value::String(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                self.fuel.spend(text_steps(a))?;
                Ok(a == b)
            }
            (Value::Array(a), Value::Array(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(a), Value::Object(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                // Both are in the order of their names.
                for ((a_name, a), (b_name, b)) in a.iter().zip(b) {
                    self.fuel.spend(text_steps(a_name))?;
                    if a_name != b_name || !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether no two items are the same. They are told apart by hashes that nobody outside can foresee, so
    /// that it takes as many steps as the items have members.
    pub(super) fn all_different(&mut self, items: &[Value]) -> Holds {
        let state = RandomState::new();
        let mut by_hash: HashMap<u64, Vec<&Value>> = HashMap::new();
        for item in items {
            let mut hasher = state.build_hasher();
            self.hash(item, &mut hasher)?;
            let alike = by_hash.entry(hasher.finish()).or_default();
            for other in alike.iter() {
                if self.equal(item, other)? {
                    return Ok(false);
                }
            }
            alike.push(item);
        }
        Ok(true)
    }

    fn hash(&mut self, value: &Value, hasher: &mut impl Hasher) -> Result<(), Exhausted> {
        // Hashing and keeping an item costs more than looking at one.
        self.fuel.spend(8)?;
        std::mem::discriminant(value).hash(hasher);
        match value {
            Value::Null => {}
            Value::Bool(value) => value.hash(hasher),
            Value::Number(number) => Exact::of(number).hash(hasher),
            Value::String(text) => {
                self.fuel.spend(text_steps(text))?;
                text.hash(hasher);
            }
            Value::Array(items) => {
                items.len().hash(hasher);
                for item in items {
                    self.hash(item, hasher)?;
                }
            }
            Value::Object(members) => {
                members.len().hash(hasher);
                for (name, member) in members {
                    self.fuel.spend(text_steps(name))?;
                    name.hash(hasher);
                    self.hash(member, hasher)?;
                }
            }
        }
        Ok(())
    }
}
