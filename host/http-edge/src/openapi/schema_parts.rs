//! Parts that the schemas of the document are made of.

use serde_json::{Map, Value, json};

/// The fields of an object, all of which have to be there.
pub type Fields = Map<String, Value>;

/// Fields by their names.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// An object of these fields.
pub fn object(description: &str, properties: Fields) -> Value {
    let required: Vec<_> = properties.keys().cloned().collect();
    let parts = [("required", required.into()), ("properties", properties.into())];
    of_type("object", description, fields(parts))
}

/// What is said of a type beside its name.
fn of_type(name: &str, description: &str, more: Fields) -> Value {
    let mut schema = fields([("type", name.into()), ("description", description.into())]);
    schema.extend(more);
    schema.into()
}

/// Adds fields to an object, which have to be there as well.
pub fn add(object: &mut Value, fields: Fields) {
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        required.extend(fields.keys().map(|name| Value::from(name.as_str())));
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(fields);
    }
}

/// A value of a type, or of several.
pub fn of(kind: impl Into<Value>, description: &str, example: impl Into<Value>) -> Value {
    let (kind, example) = (kind.into(), example.into());
    json!({ "type": kind, "description": description, "examples": [example] })
}

/// One of these words.
pub fn one_of(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

/// A word that is always the same.
pub fn always(word: &str, description: &str) -> Value {
    json!({ "type": "string", "enum": [word], "description": description, "examples": [word] })
}

/// A list of such items.
pub fn list(description: &str, items: Value) -> Value {
    of_type("array", description, fields([("items", items)]))
}

/// What may be `null` in its place.
pub fn if_any(description: &str, schema: Value) -> Value {
    let any = vec![schema, json!({ "type": "null" })];
    fields([("description", description.into()), ("anyOf", any.into())]).into()
}

/// A reference to a schema of the document.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}
