//! A component that calls the run's other tools: once, one after another for ever, and itself.

use agent_tool_sdk::{Failure, toolbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to call.
#[derive(Debug, Deserialize, JsonSchema)]
struct Call {
    /// The tool's name.
    name: String,
    /// Arguments of the call.
    #[serde(default)]
    arguments: Value,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Called {
    /// Which tools there are.
    names: Vec<String>,
    answer: Value,
    /// The code of the failure.
    code: Option<String>,
    /// How many calls were made.
    calls: u32,
}

fn call_tool(Call { name, arguments }: Call) -> Result<Called, Failure> {
    let names = toolbox::names();
    Ok(match toolbox::call::<Value>(&name, &arguments) {
        Ok(answer) => Called { names, answer, code: None, calls: 1 },
        Err(failure) => Called { names, answer: failure.message.into(), code: Some(failure.code), calls: 1 },
    })
}

fn call_tool_until_refused(Call { name, arguments }: Call) -> Result<Called, Failure> {
    let mut calls = 0;
    loop {
        calls += 1;
        if let Err(failure) = toolbox::call::<Value>(&name, &arguments) {
            let answer = failure.message.into();
            return Ok(Called { names: toolbox::names(), answer, code: Some(failure.code), calls });
        }
    }
}

fn call_tool_or_fail(Call { name, arguments }: Call) -> Result<Value, Failure> {
    toolbox::call(&name, &arguments).map_err(|failure| failure.with_meta("retry-after-ms", "1"))
}

agent_tool_sdk::export! {
    /// Calls a tool.
    call_tool(Call) -> Called;

    /// Calls a tool, fails as it does, and says of itself that it may be called again.
    call_tool_or_fail(Call) -> Value, hints: [read_only, idempotent];

    /// Calls a tool until that fails.
    call_tool_until_refused(Call) -> Called;
}
