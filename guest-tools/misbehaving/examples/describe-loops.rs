//! A component whose `describe` never returns.

use std::hint::black_box;

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeLoops;

impl Component for DescribeLoops {
    fn describe() -> Vec<ToolDef> {
        let mut turns = 0_u64;
        loop {
            turns = black_box(turns.wrapping_add(1));
        }
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Err(Failure::unavailable("never described"))
    }
}

agent_tool_sdk::export_component!(DescribeLoops);
