//! Tools and answers as the protocol has them.

use std::sync::Arc;

use agent_core::words::{Catalog, ToolHints, ToolOutcome, ToolReturn, ToolSpec};
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, ListToolsResult, Tool, ToolAnnotations};
use serde_json::Value;

/// All of them on one page: a catalog is bounded by what a model can be told of at once.
pub(crate) fn list(catalog: &Catalog) -> ListToolsResult {
    ListToolsResult::with_all_items(catalog.tools().iter().map(|spec| tool(spec)).collect())
}

fn tool(spec: &ToolSpec) -> Tool {
    let schema = match &spec.input_schema {
        Value::Object(schema) => schema.clone(),
        // The root of an input schema is an object (`ToolSpec::input_schema`).
        _ => serde_json::Map::new(),
    };
    let ToolHints { read_only, destructive, idempotent, open_world } = spec.hints;
    let annotations = ToolAnnotations::from_raw(None, read_only, destructive, idempotent, open_world);
    Tool::new(spec.name.clone(), spec.description.clone(), Arc::new(schema))
        .with_title(title(&spec.name))
        .with_annotations(annotations)
}

/// A name for people: tools have no other.
fn title(name: &str) -> String {
    let mut title = name.replace('_', " ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// An answer to a call. A tool that failed is the model's to read about; only a tool that there is not is an
/// error of the protocol.
pub(crate) fn answer(answer: ToolReturn) -> Result<CallToolResult, ErrorData> {
    let ToolReturn { content, receipt } = answer;
    match receipt.outcome {
        ToolOutcome::Ok => Ok(CallToolResult::success(vec![ContentBlock::text(content)])),
        ToolOutcome::UnknownTool => Err(ErrorData::invalid_params("there is no tool of that name", None)),
        ToolOutcome::Failed
        | ToolOutcome::InvalidArguments
        | ToolOutcome::Interrupted
        | ToolOutcome::NotRun
        | ToolOutcome::TimedOut
        | ToolOutcome::Trapped
        | ToolOutcome::MemoryLimit
        | ToolOutcome::OutputLimit
        | ToolOutcome::InvalidOutput
        | ToolOutcome::HostError
        | ToolOutcome::Cancelled => Ok(CallToolResult::error(vec![ContentBlock::text(content)])),
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolReceipt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_listed_with_what_it_says_of_itself_and_no_more() {
        let hints = ToolHints { read_only: Some(true), open_world: Some(false), ..ToolHints::default() };
        let spec = |name: &str, hints| ToolSpec {
            name: name.into(),
            description: "Looks one up.".into(),
            input_schema: json!({"type": "object"}),
            hints,
            ..ToolSpec::default()
        };
        let tools = vec![spec("order_lookup", hints), spec("b", ToolHints::default())];
        let listed = list(&Catalog::new(tools, "sha256:1".into()));
        assert_eq!(
            serde_json::to_value(&listed).unwrap()["tools"],
            json!([
                {"name": "b", "title": "B", "description": "Looks one up.", "inputSchema": {"type": "object"},
                 "annotations": {}},
                {"name": "order_lookup", "title": "Order lookup", "description": "Looks one up.",
                 "inputSchema": {"type": "object"},
                 "annotations": {"readOnlyHint": true, "openWorldHint": false}},
            ])
        );
    }

    #[test]
    fn only_a_tool_that_there_is_not_is_an_error_of_the_protocol() {
        let answered = |outcome| {
            let receipt = ToolReceipt::new("add", outcome);
            answer(ToolReturn { content: "Error: no.".into(), receipt })
        };
        assert_eq!(answered(ToolOutcome::UnknownTool).unwrap_err().code.0, -32602);
        for (outcome, is_error) in [
            (ToolOutcome::Ok, false),
            (ToolOutcome::Failed, true),
            (ToolOutcome::TimedOut, true),
            (ToolOutcome::InvalidArguments, true),
        ] {
            let result = answered(outcome).unwrap();
            assert_eq!(result.is_error, Some(is_error), "{outcome:?}");
            assert_eq!(result.content, [ContentBlock::text("Error: no.")]);
        }
    }
}
