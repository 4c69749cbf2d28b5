//! Arguments made from a tool's schema: valid ones, invalid ones, and smaller ones of those that fail.
//!
//! The keywords that tools use are understood; whether what was made is valid all the same is the host's to
//! say, which holds it against the whole schema before the tool is called.

mod invalid;
mod pattern;
mod shrink;
mod text;

use std::collections::HashSet;

use fastrand::Rng;
use json_schema::syntax::{Document, Keywords};
use serde_json::{Map, Number, Value};

pub use invalid::{Abuse, Size, invalid};
pub use shrink::smaller;

/// Deepest that values are made.
const MOST_DEPTH: usize = 32;

/// Most items of a list and bytes of a text, unless the schema asks for more.
const MOST_ITEMS: usize = 4;
const MOST_CHARS: usize = 24;

/// Longest list or text that is made because the schema asks for it.
const MOST_ASKED: u64 = 100_000;

/// Numbers without bounds are within these, so that most tools have an answer.
const USUAL: (f64, f64) = (-1000.0, 1000.0);

/// Most values and bytes of texts that one set of arguments is made of: lists of lists that a schema asks for
/// would else take all memory. What is not made any more is `null` or left out.
const MOST_MADE: usize = 200_000;

/// Most schemas that the keywords of one part are taken together from.
const MOST_PARTS: usize = 1_000;

/// Makes arguments of one schema.
#[derive(Debug)]
pub struct Generator<'s> {
    document: Document<'s>,
    random: Rng,
    /// Whether optional members are left out and bounds are met exactly.
    edges: bool,
    /// What may still be made of the arguments that are being made.
    left: usize,
}

impl<'s> Generator<'s> {
    /// With the same seed the same arguments are made.
    pub fn new(schema: &'s Value, seed: u64) -> Self {
        Self { document: Document(schema), random: Rng::with_seed(seed), edges: false, left: 0 }
    }

    /// The next arguments that should be valid: every other one is at the edges of what the schema allows.
    pub fn valid(&mut self) -> Map<String, Value> {
        (self.edges, self.left) = (!self.edges, MOST_MADE);
        match self.value(self.document.0, 0) {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > MOST_DEPTH || self.left == 0 {
            return Value::Null;
        }
        self.pay(1);
        let combined = self.document.combined(schema, &mut { MOST_PARTS });
        let keywords = Keywords::from(&combined);
        if let Some(value) = keywords.get("const") {
            return self.copied(value);
        }
        for key in ["enum", "examples"] {
            // Examples are what the author thinks of, so they come often but not always.
            let values = keywords.list(key);
            if !values.is_empty()
                && (key == "enum" || self.random.u8(..3) > 0)
                && let Some(value) = self.choose(values)
            {
                return self.copied(value);
            }
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(choice) = self.choose(keywords.list(key)) {
                let made = self.value(choice, depth + 1);
                return self.joined(keywords, made, depth);
            }
        }
        match self.kind(keywords) {
            Some("object") => Value::Object(self.object(keywords, depth)),
            Some("array") => Value::Array(self.array(keywords, depth)),
            Some("string") => {
                let text = text::make(keywords, self.edges, &mut self.random);
                self.pay(text.len());
                Value::String(text)
            }
            Some("integer") => self.number(keywords, true),
            Some("number") => self.number(keywords, false),
            Some("boolean") => Value::Bool(self.random.bool()),
            Some("null") => Value::Null,
            _ => self.anything(),
        }
    }

    /// Counts what was made. The last text or copy may be larger than what is left.
    fn pay(&mut self, made: usize) {
        self.left = self.left.saturating_sub(made);
    }

    /// A value that stands in the schema.
    fn copied(&mut self, value: &Value) -> Value {
        self.pay(size(value));
        value.clone()
    }

    /// What a choice of `oneOf` made, with the members beside it.
    fn joined(&mut self, keywords: Keywords<'_>, made: Value, depth: usize) -> Value {
        match made {
            Value::Object(made) if keywords.has(&["properties"]) => {
                let mut members = self.object(keywords, depth);
                members.extend(made);
                Value::Object(members)
            }
            made => made,
        }
    }

    fn kind<'a>(&mut self, keywords: Keywords<'a>) -> Option<&'a str> {
        match keywords.types().unwrap_or_default().as_slice() {
            [one] => Some(one),
            several => self.choose(several).copied().or_else(|| keywords.told_type()),
        }
    }

    fn object(&mut self, keywords: Keywords<'_>, depth: usize) -> Map<String, Value> {
        let required: Vec<&str> = keywords.required().collect();
        let mut members = Map::new();
        for (name, schema) in keywords.members("properties").into_iter().flatten() {
            let is_wanted = required.contains(&name.as_str()) || (!self.edges && self.random.bool());
            if is_wanted && self.left > 0 {
                self.pay(name.len());
                members.insert(name.clone(), self.value(schema, depth + 1));
            }
        }
        for name in required {
            if !members.contains_key(name) && self.left > 0 {
                self.pay(1 + name.len());
                members.insert(name.to_owned(), self.anything());
            }
        }
        let least = bound(keywords, "minProperties").unwrap_or(0);
        let more = keywords.get("additionalProperties").filter(|more| more.is_object());
        while (members.len() as u64) < least && self.left > 0 {
            let name = format!("key{}", members.len());
            self.pay(1 + name.len());
            let value = more.map_or(Value::from(1), |schema| self.value(schema, depth + 1));
            members.insert(name, value);
        }
        members
    }

    fn array(&mut self, keywords: Keywords<'_>, depth: usize) -> Vec<Value> {
        let least = usize::try_from(bound(keywords, "minItems").unwrap_or(0)).unwrap_or(usize::MAX);
        let most = bound(keywords, "maxItems")
            .map_or(least + MOST_ITEMS, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let most = most.min(least + MOST_ITEMS).max(least);
        let length = if self.edges { least } else { self.random.usize(least..=most) };
        let (firsts, items) =
            (keywords.list("prefixItems"), keywords.get("items").unwrap_or(&Value::Bool(true)));
        let is_unique = keywords.is("uniqueItems", true);
        // Items are known by their texts: a schema may ask for a hundred thousand.
        let (mut made, mut known) = (vec![], HashSet::new());
        for at in 0..length {
            if self.left == 0 {
                break;
            }
            let schema = firsts.get(at).unwrap_or(items);
            let mut value = self.value(schema, depth + 1);
            for _ in 0..20 {
                if !is_unique || !known.contains(&value.to_string()) {
                    break;
                }
                value = self.value(schema, depth + 1);
            }
            if is_unique {
                known.insert(value.to_string());
            }
            made.push(value);
        }
        made
    }

    fn number(&mut self, keywords: Keywords<'_>, is_whole: bool) -> Value {
        let read = |key: &str| keywords.get(key).and_then(Value::as_f64);
        let step = read("multipleOf").filter(|step| *step > 0.0);
        let grain = step.unwrap_or(if is_whole { 1.0 } else { 0.25 });
        let least = read("minimum").or_else(|| Some(read("exclusiveMinimum")? + grain));
        let most = read("maximum").or_else(|| Some(read("exclusiveMaximum")? - grain));
        let (least, most) = match (least, most) {
            (Some(least), Some(most)) => (least, most),
            (Some(least), None) => (least, (least + USUAL.1).max(least)),
            (None, Some(most)) => (most - USUAL.1, most),
            (None, None) => USUAL,
        };
        let first = (least / grain).ceil();
        let count = ((most / grain).floor() - first).max(0.0);
        let at = if self.edges {
            if self.random.bool() { 0.0 } else { count }
        } else {
            (self.random.f64() * (count + 1.0)).floor().min(count)
        };
        let number = (first + at) * grain;
        if number.fract() == 0.0 && number.abs() < 9e15 {
            // `number` is whole and within what an f64 holds exactly.
            return Value::from(number as i64);
        }
        Number::from_f64(number).map_or(Value::from(0), Value::Number)
    }

    /// A value where the schema says nothing.
    fn anything(&mut self) -> Value {
        match self.random.u8(..5) {
            0 => Value::Null,
            1 => Value::Bool(true),
            2 => Value::from(self.random.i64(-10..=10)),
            3 => Value::String("text".to_owned()),
            _ => Value::Array(vec![]),
        }
    }

    fn choose<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        if among.is_empty() { None } else { among.get(self.random.usize(..among.len())) }
    }
}

/// The values in a value and the bytes of its texts.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + size(item)).sum(),
        Value::Object(members) => members.iter().map(|(name, member)| 1 + name.len() + size(member)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A bound of the schema, as far as it is made.
fn bound(keywords: Keywords<'_>, key: &str) -> Option<u64> {
    keywords.get(key).and_then(Value::as_u64).map(|bound| bound.min(MOST_ASKED))
}

#[cfg(test)]
mod tests;
