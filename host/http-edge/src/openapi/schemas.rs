//! The schemas of a document by their names.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::schema_parts::reference;

/// Schemas that others refer to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds the schema of a type and those of all types in it: a reference to it.
    pub(super) fn add<T: ToSchema>(&mut self) -> Value {
        let mut inner = vec![];
        T::schemas(&mut inner);
        inner.push((T::name().into_owned(), T::schema()));
        for (name, schema) in inner {
            // A schema is always JSON.
            self.insert(name, serde_json::to_value(schema).unwrap_or_default());
        }
        reference(&T::name())
    }

    /// Adds a schema that no type has: a reference to it.
    pub(super) fn add_json(&mut self, name: &str, schema: Value) -> Value {
        self.insert(name.to_owned(), schema);
        reference(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Takes in those of another.
    pub(super) fn extend(&mut self, other: &Self) {
        for (name, schema) in &other.0 {
            self.insert(name.clone(), schema.clone());
        }
    }

    pub(super) fn to_json(&self) -> Value {
        self.0.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect::<Map<_, _>>().into()
    }

    fn insert(&mut self, name: String, mut schema: Value) {
        as_in_3_1(&mut schema);
        let same = self.0.get(&name).is_none_or(|known| *known == schema);
        debug_assert!(same, "two types are called {name} in the document: give one of them another name");
        self.0.insert(name, schema);
    }
}

/// JSON Schema 2020-12 has `examples`, a list; keys of objects are always strings. What the library leaves
/// unsaid is said, and links of the sources are none for readers of the document.
fn as_in_3_1(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property may be called like a keyword; then it is a schema, and these are not.
            if let Some(example) = fields.get("example").filter(|_| !is_properties(fields)).cloned() {
                fields.remove("example");
                fields.insert("examples".to_owned(), json!([example]));
            }
            if fields.get("default") == Some(&Value::Null) {
                fields.remove("default");
            }
            let is_tag = fields.get("enum").and_then(Value::as_array).is_some_and(|values| values.len() == 1);
            if is_tag {
                fields.entry("description").or_insert_with(|| "Which of these it is.".into());
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            if fields.get("propertyNames") == Some(&json!({ "type": "string" })) {
                fields.remove("propertyNames");
            }
            for (name, value) in fields.iter_mut() {
                if !matches!(name.as_str(), "examples" | "default" | "enum" | "const") {
                    as_in_3_1(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_in_3_1),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether these are the properties of an object and not keywords.
fn is_properties(fields: &Map<String, Value>) -> bool {
    fields.values().all(Value::is_object) && !fields.contains_key("$ref") && !fields.contains_key("items")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_a_list_of_one() {
        let mut schema = json!({"type": "object", "properties": {
            "example": {"type": "string", "example": "x"},
            "hints": {"type": "object", "propertyNames": {"type": "string"}, "example": {"example": 1}},
        }});
        as_in_3_1(&mut schema);
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {
                "example": {"type": "string", "examples": ["x"]},
                "hints": {"type": "object", "examples": [{"example": 1}]},
            }})
        );
    }
}
