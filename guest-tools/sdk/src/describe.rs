//! Descriptions: a tool's types and doc comments become what the host and the model are told of it.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, RestrictFormats};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::ToolDef;

/// The longest name a tool may have, in bytes.
const NAME_LENGTH: usize = 63;

/// Describes one tool; [`export!`](crate::export!) calls it for each of its functions.
///
/// `hints` are the contract's: `("read-only", "true")`, `("timeout-ms", "500")` and so on.
#[must_use]
pub fn describe_tool<Args, Answer>(name: &str, description: &str, hints: &[(&str, &str)]) -> ToolDef
where
    Args: JsonSchema,
    Answer: JsonSchema,
{
    let settings = schema_settings();
    let input = settings.clone().for_deserialize().into_generator().into_root_schema_for::<Args>();
    let output = settings.for_serialize().into_generator().into_root_schema_for::<Answer>();
    ToolDef {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: write_schema(input),
        output_schema: Some(write_schema(output)),
        hints: hints.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

/// The schema of an answer that is read as a `T`.
pub(crate) fn schema_of_answer<T: JsonSchema>() -> String {
    write_schema(schema_settings().for_deserialize().into_generator().into_root_schema_for::<T>())
}

/// Whether `name` may be a tool's: `[a-z][a-z0-9_]{0,62}`.
#[must_use]
pub const fn is_tool_name(name: &str) -> bool {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > NAME_LENGTH || !name[0].is_ascii_lowercase() {
        return false;
    }
    let mut at = 1;
    while at < name.len() {
        if !matches!(name[at], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        at += 1;
    }
    true
}

/// Joins the lines of a doc comment into a description, without the space that follows each `///`.
#[must_use]
pub fn join_doc_lines(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    unwrap_lines(&lines.join("\n"))
}

/// Schemas as a model reads them best and every provider takes them: one self-contained document, no
/// references to follow unless a type is recursive, none of schemars' own formats such as `uint32`, no
/// defaults that say nothing, and nothing without a type. All of it stands in every model call, so what says
/// nothing goes.
fn schema_settings() -> SchemaSettings {
    let mut standard_formats = RestrictFormats::default();
    standard_formats.infer_from_meta_schema = true;
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(standard_formats)
        .with_transform(RecursiveTransform(unwrap_description))
        .with_transform(RecursiveTransform(remove_null_default))
        .with_transform(RecursiveTransform(name_types_of_parts))
}

/// Writes a schema without what is said elsewhere: its dialect, which the contract fixes, its title, which is
/// the name of a Rust type, and that type's description, for which the tool's own stands.
fn write_schema(mut schema: Schema) -> String {
    for key in ["$schema", "title", "description"] {
        schema.remove(key);
    }
    if schema.get("type").is_some_and(|kind| kind == "object") {
        // Some model providers refuse an object that does not say what is in it, be it nothing.
        schema.ensure_object().entry("properties").or_insert_with(|| Map::new().into());
    }
    schema.as_value().to_string()
}

fn unwrap_description(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = unwrap_lines(description);
    }
}

/// Leaves out that an absent optional value is null: that it may be left out is said by `required`.
fn remove_null_default(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// Gives a type to members and items that may be anything (`serde_json::Value`): schemars writes nothing for
/// them or only a description, which llama.cpp's server refuses ("Unrecognized schema"), and with it every
/// request that the tool is part of.
fn name_types_of_parts(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::Object(members)) = schema.get_mut("properties") {
        members.values_mut().for_each(name_types);
    }
    // Not the items that [`name_types`] leaves open: they may be anything, and so on without end.
    if schema.get("type").is_some_and(|kind| kind == "array")
        && let Some(items) = schema.get_mut("items")
    {
        name_types(items);
    }
}

fn name_types(schema: &mut Value) {
    const TELLING: [&str; 8] = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not"];
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Value::Object(schema) = schema else { return };
    if !TELLING.iter().any(|key| schema.contains_key(*key)) {
        let types = json!(["object", "array", "string", "number", "boolean", "null"]);
        schema.insert("type".to_owned(), types);
        // OpenAI refuses an array that does not say what is in it ("array schema missing items").
        schema.entry("items").or_insert_with(|| json!({}));
    }
}

/// Undoes the line breaks that keep a doc comment within the page. Those stay that end a paragraph or begin
/// an item of a list.
fn unwrap_lines(text: &str) -> String {
    let mut unwrapped = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_end) {
        let stands_alone = line.is_empty() || line.starts_with(['-', '*', ' ']) || unwrapped.ends_with('\n');
        if !unwrapped.is_empty() {
            unwrapped.push(if stands_alone { '\n' } else { ' ' });
        }
        unwrapped.push_str(line);
    }
    unwrapped.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{is_tool_name, join_doc_lines};

    #[test]
    fn names_are_checked() {
        let longest = "a".repeat(63);
        for name in ["a", "calculate", "return_100_mb", &longest] {
            assert!(is_tool_name(name), "{name}");
        }
        for name in ["", "1st", "_a", "Calculate", "with space", "tiret-long", "é", &format!("{longest}a")] {
            assert!(!is_tool_name(name), "{name}");
        }
    }

    #[test]
    fn doc_comments_are_unwrapped() {
        let lines = [" Adds numbers,", " two of them.", "", " - one", " - another", "   of these", ""];
        assert_eq!(join_doc_lines(&lines), "Adds numbers, two of them.\n\n- one\n- another\n  of these");
    }
}
