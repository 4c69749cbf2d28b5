//! The tools of this component. `cargo test` tests them; `agent-tool build` makes the component.

use agent_tool_sdk::{Failure, log};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Guest {
    /// Whom to greet, by their first name
    name: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Greeting {
    /// The greeting, ready to be sent
    text: String,
}

fn {{tool}}(Guest { name }: Guest) -> Result<Greeting, Failure> {
    if name.trim().is_empty() {
        return Err(Failure::invalid_arguments("`name` is blank: give the first name of the one to greet"));
    }
    log::debug("greeting");
    Ok(Greeting { text: format!("Hello, {name}!") })
}

agent_tool_sdk::export! {
    /// Writes a greeting to someone. Use it when the user asks to greet a person by name.
    {{tool}}(Guest) -> Greeting, hints: [read_only, idempotent], timeout_ms: 1000;
}

#[cfg(test)]
mod tests {
    use super::{Greeting, Guest, {{tool}}};

    #[test]
    fn a_guest_is_greeted_by_name() {
        let greeting = {{tool}}(Guest { name: "Ada".to_owned() });
        assert_eq!(greeting.unwrap(), Greeting { text: "Hello, Ada!".to_owned() });
    }

    #[test]
    fn a_blank_name_is_refused() {
        let refusal = {{tool}}(Guest { name: " ".to_owned() }).unwrap_err();
        assert_eq!(refusal.code, "invalid-arguments");
    }
}
