//! Descriptions: a tool's types and doc comments become what the host and the model are told of it.

use schemars::generate::SchemaSettings;
use schemars::transform::RestrictFormats;
use schemars::{JsonSchema, Schema};

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
    let lines: Vec<&str> =
        lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim().to_owned()
}

/// Schemas as a model reads them best: one self-contained document, no references to follow unless a type is
/// recursive, and none of schemars' own formats such as `uint32`.
fn schema_settings() -> SchemaSettings {
    let draft = SchemaSettings::draft2020_12();
    let mut standard_formats = RestrictFormats::default();
    standard_formats.infer_from_meta_schema = true;
    draft.with(|settings| settings.inline_subschemas = true).with_transform(standard_formats)
}

/// Writes a schema without its dialect, which the contract fixes, and without its title, the name of a Rust type.
fn write_schema(mut schema: Schema) -> String {
    schema.remove("$schema");
    schema.remove("title");
    schema.as_value().to_string()
}
