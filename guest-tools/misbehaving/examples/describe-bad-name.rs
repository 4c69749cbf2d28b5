//! A component with a tool whose name the contract does not allow.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeBadName;

impl Component for DescribeBadName {
    fn describe() -> Vec<ToolDef> {
        vec![ToolDef {
            name: "Not a name!".to_owned(),
            description: "Its name has capitals, blanks and a mark.".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        }]
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Ok(Output { value: "null".to_owned(), meta: Vec::new() })
    }
}

agent_tool_sdk::export_component!(DescribeBadName);
