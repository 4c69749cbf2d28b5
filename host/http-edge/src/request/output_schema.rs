//! `options.outputSchema`, in both variants: the JSON Schema of the answer that a caller wants.

use agent_core::words::{OutputFormat, ReplyRules};
use run_service::output_check::check_schema;
use serde_json::{Value, json};

use crate::request::{Field, Kind, Object};

/// The field of a request's options.
pub(crate) const OUTPUT_SCHEMA: Field = Field::new("outputSchema", Kind::Object(&Object::OPEN))
    .about(
        "The JSON Schema (2020-12) of the answer. The output is JSON that matches it, and `outputValue` is its value; the \
         model may correct itself twice. A run that comes to no such output ends with `invalid_output`, and `outputError` \
         says what is wrong.",
    )
    .example(|| json!({ "type": "object", "properties": { "answer": { "type": "number" } }, "required": ["answer"] }));

/// What the replies have to keep to when the answer is to match the schema.
pub(crate) fn rules(schema: Option<Value>) -> ReplyRules {
    let output = schema.map(|schema| OutputFormat { name: "output".to_owned(), schema: Some(schema) });
    ReplyRules { output, ..ReplyRules::default() }
}

/// Refuses a schema that no output can be held against, with a sentence about it.
pub(crate) async fn check(rules: &ReplyRules) -> Result<(), String> {
    match &rules.output {
        Some(format) => check_schema(format).await.map_err(|problem| format!("The schema {problem}")),
        None => Ok(()),
    }
}
