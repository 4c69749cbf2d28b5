//! A component whose `describe` traps.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeTraps;

impl Component for DescribeTraps {
    #[expect(clippy::panic, reason = "to panic is what it is for")]
    fn describe() -> Vec<ToolDef> {
        panic!("this description panics on purpose")
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Err(Failure::unavailable("never described"))
    }
}

agent_tool_sdk::export_component!(DescribeTraps);
