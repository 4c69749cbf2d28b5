//! The servers' own checks, as far as their sources and error texts show them: what the normalised form is
//! held against.

use serde_json::Value;

use super::types::is_portable_name;

/// Everything that one of the servers would refuse.
pub(super) fn refusals(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    llama_cpp(root, &mut found);
    openai(root, &mut found);
    anthropic(root, &mut found);
    ollama(root, &mut found);
    xgrammar(root, &mut found);
    found
}

fn members<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Every schema within a schema.
fn parts<'a>(schema: &'a Value, all: &mut Vec<&'a Value>) {
    all.push(schema);
    let below = members(schema, "properties").map(|(_, part)| part);
    let below = below.chain(list(schema, "anyOf")).chain(schema.get("items"));
    let below = below.chain(schema.get("additionalProperties").filter(|part| part.is_object()));
    below.for_each(|part| parts(part, all));
}

/// `visit` of `json-schema-to-grammar.cpp`, build 8094.
fn llama_cpp(schema: &Value, found: &mut Vec<String>) {
    let mut refuse = |why: &str| found.push(format!("llama.cpp: {why}: {schema}"));
    if !schema.is_object() {
        return refuse("Unrecognized schema");
    }
    let has = |key: &str| schema.get(key).is_some();
    if has("$ref") || has("allOf") || has("pattern") {
        return refuse("more than it can be trusted with");
    }
    if has("anyOf") || has("oneOf") {
        return list(schema, "anyOf").chain(list(schema, "oneOf")).for_each(|part| llama_cpp(part, found));
    }
    if let Some(Value::Array(types)) = schema.get("type") {
        for one in types {
            let mut copy = schema.clone();
            copy["type"] = one.clone();
            llama_cpp(&copy, found);
        }
        return;
    }
    if has("const") || has("enum") {
        return;
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let open = schema.get("additionalProperties").is_none_or(|additional| *additional == true);
    if kind.is_none_or(|kind| kind == "object") && (has("properties") || !open) {
        members(schema, "properties").for_each(|(_, part)| llama_cpp(part, found));
        let additional = schema.get("additionalProperties").filter(|additional| !additional.is_boolean());
        return additional.into_iter().for_each(|part| llama_cpp(part, found));
    }
    match kind {
        None => refuse("Unrecognized schema"),
        Some("array") => schema.get("items").into_iter().for_each(|items| llama_cpp(items, found)),
        Some("integer") => {
            for bound in ["minimum", "maximum"].into_iter().filter_map(|key| schema.get(key)) {
                if bound.as_i64().is_none() {
                    refuse("a bound that is no int64");
                }
            }
        }
        Some("string" | "number" | "boolean" | "null" | "object") => {}
        Some(_) => refuse("Unrecognized schema"),
    }
    for bound in ["minLength", "maxLength", "minItems", "maxItems"] {
        if schema.get(bound).is_some() {
            found.push(format!("llama.cpp: {bound} can exceed sane defaults"));
        }
    }
}

fn openai(root: &Value, found: &mut Vec<String>) {
    let mut refuse = |why: &str, part: &Value| found.push(format!("OpenAI: {why}: {part}"));
    if root["type"] != "object" || !root["properties"].is_object() {
        refuse("schema must be of type object with properties", root);
    }
    for key in ["anyOf", "oneOf", "allOf", "enum", "not"] {
        if root.get(key).is_some() {
            refuse("a combination at the top level", root);
        }
    }
    let mut all = Vec::new();
    parts(root, &mut all);
    for part in all {
        let is = |kind: &str| part["type"] == kind || list(part, "type").any(|one| one == kind);
        if part["type"] == "object" && !part["properties"].is_object() {
            refuse("object schema missing properties", part);
        }
        if is("array") && !part["items"].is_object() {
            refuse("array schema missing items", part);
        }
        if list(part, "required").any(|name| part["properties"].get(name.as_str().unwrap()).is_none()) {
            refuse("required names an extra key", part);
        }
        let values: Vec<_> = list(part, "enum").collect();
        let again = |n: usize| values[..n].contains(&values[n]);
        if part.get("enum").is_some() && values.is_empty() || (0..values.len()).any(again) {
            refuse("enum is not a set", part);
        }
        if part["description"].as_str().is_some_and(|text| text.chars().count() > 1024) {
            refuse("string too long", part);
        }
    }
}

fn anthropic(root: &Value, found: &mut Vec<String>) {
    if root["type"] != "object" || ["anyOf", "oneOf", "allOf"].iter().any(|key| root.get(key).is_some()) {
        found.push("Anthropic: input_schema does not support this at the top level".into());
    }
    let mut all = Vec::new();
    parts(root, &mut all);
    for part in all {
        if part.get("$ref").is_some() {
            found.push("Anthropic: reference keywords".into());
        }
        if members(part, "properties").any(|(name, _)| !is_portable_name(name)) {
            found.push("Anthropic: property keys should match pattern".into());
        }
    }
}

/// Decoding into `ToolFunctionParameters` and `ToolProperty`.
fn ollama(root: &Value, found: &mut Vec<String>) {
    if !root["type"].is_string() {
        found.push("Ollama: the root's type is no string".into());
    }
    let mut all = Vec::new();
    parts(root, &mut all);
    for part in all {
        let is_type = |kind: &Value| kind.is_null() || kind.is_string();
        let types = is_type(&part["type"]) || list(part, "type").all(Value::is_string);
        let fits = part.is_object()
            && types
            && (part["description"].is_null() || part["description"].is_string())
            && (part["enum"].is_null() || part["enum"].is_array())
            && list(part, "required").all(Value::is_string);
        if !fits {
            found.push(format!("Ollama: cannot unmarshal {part}"));
        }
    }
}

fn xgrammar(root: &Value, found: &mut Vec<String>) {
    const UNSUPPORTED: [&str; 9] = [
        "multipleOf",
        "uniqueItems",
        "contains",
        "minItems",
        "maxItems",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
    ];
    let mut all = Vec::new();
    parts(root, &mut all);
    for part in all {
        if UNSUPPORTED.iter().any(|key| part.get(key).is_some()) {
            found.push(format!("vLLM: features not supported by xgrammar: {part}"));
        }
    }
}
