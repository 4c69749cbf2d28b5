//! A component with two tools of one name.

use agent_tool_sdk::{Component, Failure, Output, ToolDef};

struct DescribeDuplicates;

impl Component for DescribeDuplicates {
    fn describe() -> Vec<ToolDef> {
        let twin = |description: &str| ToolDef {
            name: "twin".to_owned(),
            description: description.to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            hints: Vec::new(),
        };
        vec![twin("The first of two tools of one name."), twin("The second of two tools of one name.")]
    }

    fn call(_: String, _: String) -> Result<Output, Failure> {
        Ok(Output { value: "null".to_owned(), meta: Vec::new() })
    }
}

agent_tool_sdk::export_component!(DescribeDuplicates);
