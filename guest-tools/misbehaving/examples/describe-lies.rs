//! A component that describes a tool which `call` does not know.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeLies;

impl Component for DescribeLies {
    fn describe() -> Vec<ToolDef> {
        vec![ToolDef {
            name: "promise".to_owned(),
            description: "Described, but not there when it is called.".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        }]
    }

    fn call(name: String, _: String) -> Result<Output, Failure> {
        Err(Failure::not_found(format!("there is no tool `{name}` here")))
    }
}

agent_tool_sdk::export_component!(DescribeLies);
