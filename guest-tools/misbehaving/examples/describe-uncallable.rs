//! A component with a tool that must have an argument which its schema forbids.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeUncallable;

impl Component for DescribeUncallable {
    fn describe() -> Vec<ToolDef> {
        let input_schema = r#"{"type":"object","properties":{"query":{"type":"string","description":"What to find.",
            "maxLength":100}},"required":["qurey"],"additionalProperties":false}"#;
        vec![ToolDef {
            name: "find".to_owned(),
            description: "Finds pages by their words. Use it for facts.".to_owned(),
            input_schema: input_schema.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        }]
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Ok(Output { value: "[]".to_owned(), meta: Vec::new() })
    }
}

agent_tool_sdk::export_component!(DescribeUncallable);
