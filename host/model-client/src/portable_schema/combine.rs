//! References and combinations of schemas: `$ref`, `allOf`, `anyOf`, `oneOf`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The keywords of a part with its references followed and its `allOf` taken together.
pub(super) type Combined = BTreeMap<String, Value>;

/// References to references, and combinations within combinations, are followed so far.
const MOST_STEPS: u32 = 8;

/// Reads one schema.
pub(super) struct Reader<'a> {
    pub(super) root: &'a Value,
    /// Parts that may still be read. References can make a short schema a large one.
    pub(super) left: usize,
}

impl Reader<'_> {
    /// A part's keywords. What is no object of keywords says nothing.
    pub(super) fn combined(&mut self, schema: &Value) -> Combined {
        let mut keywords = Combined::new();
        self.combine(&mut keywords, schema, MOST_STEPS);
        keywords
    }

    /// Adds the keywords of one more schema that holds at the same time. Of two that differ the first stays: all
    /// of them hold, so whichever stays allows no less.
    fn combine(&mut self, keywords: &mut Combined, schema: &Value, steps: u32) {
        self.left = self.left.saturating_sub(1);
        let Value::Object(map) = schema else { return };
        if self.left == 0 || steps == 0 {
            return;
        }
        for (key, value) in map {
            match key.as_str() {
                "$ref" | "allOf" | "$defs" | "definitions" => {}
                "properties" => add_properties(keywords, value),
                "required" => add_required(keywords, value),
                _ => {
                    keywords.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        let target = map.get("$ref").and_then(Value::as_str).and_then(|reference| self.target(reference));
        if let Some(target) = target {
            self.combine(keywords, &target, steps - 1);
        }
        for component in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.combine(keywords, component, steps - 1);
        }
    }

    /// What a reference refers to, if it is a part of the same schema.
    fn target(&self, reference: &str) -> Option<Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root.pointer(&percent_decoded(pointer)?).cloned()
    }
}

fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn add_properties(keywords: &mut Combined, value: &Value) {
    let Value::Object(more) = value else { return };
    let all = keywords.entry("properties".into()).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(all) = all {
        for (name, schema) in more {
            all.entry(name.clone()).or_insert_with(|| schema.clone());
        }
    }
}

fn add_required(keywords: &mut Combined, value: &Value) {
    let Value::Array(more) = value else { return };
    let all = keywords.entry("required".into()).or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        let new: Vec<_> = more.iter().filter(|name| !all.contains(*name)).cloned().collect();
        all.extend(new);
    }
}

/// The alternatives of a part.
pub(super) fn alternatives(keywords: &Combined) -> Option<Vec<Value>> {
    let list = |key| keywords.get(key).and_then(Value::as_array).filter(|list| !list.is_empty());
    list("anyOf").or_else(|| list("oneOf")).cloned()
}

/// An alternative with the type that stands beside the list, if it says none itself.
pub(super) fn beside(keywords: &Combined, alternative: &Value) -> Value {
    match (alternative, keywords.get("type")) {
        (Value::Object(own), Some(kind)) if !own.contains_key("type") && !own.contains_key("$ref") => {
            let mut own = own.clone();
            own.insert("type".into(), kind.clone());
            Value::Object(own)
        }
        _ => alternative.clone(),
    }
}

/// Makes one list of properties of alternatives that are objects: each may have those of any, and must have
/// what all of them must.
pub(super) fn fold_alternatives(reader: &mut Reader<'_>, keywords: &mut Combined) {
    let listed = alternatives(keywords);
    for key in ["anyOf", "oneOf", "not", "if", "then", "else"] {
        keywords.remove(key);
    }
    let Some(listed) = listed else { return };
    let mut common: Option<Vec<Value>> = None;
    let mut properties: Map<String, Value> = Map::new();
    for alternative in &listed {
        let alternative = reader.combined(alternative);
        for (name, schema) in alternative.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let known = properties.remove(name);
            let either = known.map_or_else(|| schema.clone(), |known| either(reader, known, schema));
            properties.insert(name.clone(), either);
        }
        let required = alternative.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        common = Some(match common {
            None => required,
            Some(before) => before.into_iter().filter(|name| required.contains(name)).collect(),
        });
    }
    add_properties(keywords, &Value::Object(properties));
    add_required(keywords, &common.unwrap_or_default().into());
}

/// A property that two alternatives define: one list of values where both have one, such as the tags of a union.
fn either(reader: &mut Reader<'_>, known: Value, other: &Value) -> Value {
    if known == *other {
        return known;
    }
    let values = |keywords: &Combined| match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        (None, _) => None,
    };
    let (first, second) = (reader.combined(&known), reader.combined(other));
    match (values(&first), values(&second)) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            all.dedup();
            json!({ "enum": all })
        }
        _ => match known.get("anyOf").and_then(Value::as_array) {
            Some(list) if known.as_object().is_some_and(|map| map.len() == 1) => {
                json!({ "anyOf": list.iter().chain([other]).collect::<Vec<_>>() })
            }
            _ => json!({ "anyOf": [known, other] }),
        },
    }
}
