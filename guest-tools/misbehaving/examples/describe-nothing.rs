//! A component without tools.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeNothing;

impl Component for DescribeNothing {
    fn describe() -> Vec<ToolDef> {
        Vec::new()
    }

    fn call(name: String, _: String) -> Result<Output, Failure> {
        Err(Failure::not_found(format!("there is no tool `{name}` here, nor any other")))
    }
}

agent_tool_sdk::export_component!(DescribeNothing);
