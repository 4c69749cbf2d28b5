//! Components that misbehave by their description alone: no call of them finds a tool.

/// Exports a component that describes tools, each by its name, description and input schema. After `fn`
/// stands a body of `describe` instead.
macro_rules! export_description {
    (fn $describe:block) => {
        struct Described;

        impl agent_tool_sdk::Component for Described {
            fn describe() -> Vec<agent_tool_sdk::ToolDef> $describe

            fn call(name: String, _: String) -> Result<agent_tool_sdk::Output, agent_tool_sdk::Failure> {
                Err(agent_tool_sdk::Failure::not_found(format!("there is no tool `{name}` here")))
            }
        }

        agent_tool_sdk::export_component!(Described);
    };
    ($($name:literal, $description:expr, $input_schema:literal;)*) => {
        export_description!(fn {
            vec![$(agent_tool_sdk::ToolDef {
                name: $name.to_owned(),
                description: $description.into(),
                input_schema: $input_schema.to_owned(),
                output_schema: None,
                hints: Vec::new(),
            }),*]
        });
    };
}
