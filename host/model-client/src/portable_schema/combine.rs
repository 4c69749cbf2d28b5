//! Combinations of schemas: `anyOf` and `oneOf`, beside the `$ref` and `allOf` that `json_schema` takes
//! together.

use std::collections::HashSet;

use json_schema::syntax::{Document, Keywords, add_properties, add_required};
use serde_json::{Map, Value, json};

/// So many values that are copied for a part, or bytes of a text, count as one more part.
const COPIED_FOR_A_PART: usize = 64;

/// Reads one schema.
pub(super) struct Reader<'a> {
    pub(super) document: Document<'a>,
    /// Parts that may still be read. References can make a short schema a large one.
    pub(super) left: usize,
}

impl Reader<'_> {
    /// A part's keywords with its references followed and its `allOf` taken together. Those are copies, and a
    /// short schema may refer to a long part many times.
    pub(super) fn combined(&mut self, schema: &Value) -> Map<String, Value> {
        let all = self.document.combined(schema, &mut self.left);
        self.left = self.left.saturating_sub(size_of_members(&all) / COPIED_FOR_A_PART);
        all
    }
}

fn size_of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| name.len() / COPIED_FOR_A_PART + size(value)).sum()
}

/// How many values it is, where a long text counts as several.
fn size(value: &Value) -> usize {
    let within: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / COPIED_FOR_A_PART,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => size_of_members(members),
    };
    within + 1
}

/// The alternatives of a part, if it has any.
pub(super) fn alternatives(keywords: Keywords<'_>) -> Option<&[Value]> {
    ["anyOf", "oneOf"].into_iter().map(|key| keywords.list(key)).find(|list| !list.is_empty())
}

/// An alternative with the type that stands beside the list, if it says none itself.
pub(super) fn beside(keywords: Keywords<'_>, alternative: &Value) -> Value {
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
pub(super) fn fold_alternatives(reader: &mut Reader<'_>, keywords: &mut Map<String, Value>) {
    let listed = alternatives(Keywords::from(&*keywords)).map(<[Value]>::to_vec);
    for key in ["anyOf", "oneOf", "not", "if", "then", "else"] {
        keywords.remove(key);
    }
    let Some(listed) = listed else { return };
    let mut common: Option<Vec<Value>> = None;
    let mut properties: Map<String, Value> = Map::new();
    for alternative in &listed {
        if reader.left == 0 {
            // What is made of it now is not used.
            break;
        }
        let alternative = reader.combined(alternative);
        let alternative = Keywords::from(&alternative);
        for (name, schema) in alternative.members("properties").into_iter().flatten() {
            let known = properties.remove(name);
            let either = known.map_or_else(|| schema.clone(), |known| either(reader, known, schema));
            properties.insert(name.clone(), either);
        }
        let required = alternative.list("required");
        common = Some(match common {
            None => required.to_vec(),
            Some(before) => {
                let required: HashSet<&Value> = required.iter().collect();
                before.into_iter().filter(|name| required.contains(name)).collect()
            }
        });
    }
    add_properties(keywords, &Value::Object(properties));
    add_required(keywords, &common.unwrap_or_default().into());
}

/// A property that two alternatives define: one list of values where both have one, such as the tags of a
/// union.
fn either(reader: &mut Reader<'_>, known: Value, other: &Value) -> Value {
    if known == *other {
        return known;
    }
    let (first, second) = (reader.combined(&known), reader.combined(other));
    match (Keywords::from(&first).choices(), Keywords::from(&second).choices()) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            all.dedup();
            json!({ "enum": all })
        }
        _ => match Keywords::of(&known).list("anyOf") {
            list if !list.is_empty() && known.as_object().is_some_and(|map| map.len() == 1) => {
                json!({ "anyOf": list.iter().chain([other]).collect::<Vec<_>>() })
            }
            _ => json!({ "anyOf": [known, other] }),
        },
    }
}
