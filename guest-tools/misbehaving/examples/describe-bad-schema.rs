//! A component with a tool whose input schema is JSON, but no JSON Schema.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeBadSchema;

impl Component for DescribeBadSchema {
    fn describe() -> Vec<ToolDef> {
        vec![ToolDef {
            name: "badly_typed".to_owned(),
            description: "Its schema has a type that JSON Schema does not know.".to_owned(),
            input_schema: r#"{"type":"obstacle","properties":[]}"#.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        }]
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Ok(Output { value: "null".to_owned(), meta: Vec::new() })
    }
}

agent_tool_sdk::export_component!(DescribeBadSchema);
