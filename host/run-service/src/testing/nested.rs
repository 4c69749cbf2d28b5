//! What is promised of the calls and questions of tools, for `host/fuzz`.

use agent_core::ports::Question;
use agent_core::words::ToolHints;

use crate::loop_driver::nested_bounds;

/// Arguments of a nested call, and a question with the schema of its answer: each is read, or refused in
/// words for the tool.
///
/// # Panics
/// When a question is shown otherwise than it was asked, or a refusal says nothing.
pub fn read_nested(arguments: &str, question: Question<'_>) {
    match nested_bounds::read("1".to_owned(), nested_bounds::shortened(arguments), arguments) {
        Ok(call) => assert!(call.arguments.is_object() || call.arguments.is_string(), "{call:?}"),
        Err(refusal) => assert!(refusal.content.starts_with("Error: ")),
    }
    let call = nested_bounds::question("ask".to_owned(), question);
    match nested_bounds::terms(&call, question, ToolHints::default()) {
        Ok(terms) => {
            let shown = terms.shown.arguments.get("question").and_then(|shown| shown.as_str());
            assert_eq!(shown, Some(question.text));
            assert_eq!(terms.answer.is_some(), question.schema.is_some());
        }
        Err(refusal) => assert!(refusal.content.starts_with("Error: ")),
    }
}
