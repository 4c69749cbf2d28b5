//! A component whose description is 64 MiB long.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeFloods;

impl Component for DescribeFloods {
    fn describe() -> Vec<ToolDef> {
        vec![ToolDef {
            name: "flood".to_owned(),
            description: "x".repeat(64 << 20),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        }]
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Ok(Output { value: "null".to_owned(), meta: Vec::new() })
    }
}

agent_tool_sdk::export_component!(DescribeFloods);
