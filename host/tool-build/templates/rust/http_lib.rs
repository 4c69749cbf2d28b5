//! The tools of this component. `cargo test` tests them; `agent-tool build` makes the component.
//!
//! Where the service is stands in the operator's policy (`config`), and so does the key that it wants: the
//! host adds it to the requests, and the tool never sees it.

use agent_tool_sdk::{Failure, config, http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The part's number, such as A-100
    part: String,
}

/// What the service says of a part, and what the model is told: what else it says is left out.
#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
struct Part {
    name: String,
    in_stock: u32,
}

fn {{tool}}(Question { part }: Question) -> Result<Part, Failure> {
    let endpoint = config::get("endpoint").ok_or_else(|| {
        let line = "the operator adds config = { endpoint = \"https://HOST\" } to the tools policy";
        Failure::new("not-configured", line)
    })?;
    if part.trim().is_empty() {
        return Err(Failure::invalid_arguments("`part` is blank: give the part's number"));
    }
    http::get_json(&format!("{endpoint}/parts/{}", http::encode_segment(&part)))
}

agent_tool_sdk::export! {
    /// Looks up how many of a part are in stock and what it is called. Use it when the user asks about a part
    /// by its number.
    {{tool}}(Question) -> Part, hints: [read_only, idempotent], timeout_ms: 5000;
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::{config, http};

    use super::{Part, Question, {{tool}}};

    fn look_up(part: &str) -> Result<Part, agent_tool_sdk::Failure> {
        config::double::set("endpoint", "https://parts.example.org");
        {{tool}}(Question { part: part.to_owned() })
    }

    #[test]
    fn a_part_is_looked_up() {
        http::double::answer(|request| {
            assert_eq!(request.url, "https://parts.example.org/parts/A%201%2F2");
            http::Response::new(200, r#"{"name": "hinge", "in_stock": 7, "shelf": 3}"#)
        });
        assert_eq!(look_up("A 1/2").unwrap(), Part { name: "hinge".to_owned(), in_stock: 7 });
    }

    #[test]
    fn what_the_server_refuses_is_told() {
        for (status, code) in [(404, "not-found"), (401, "denied"), (503, "unavailable")] {
            http::double::answer(move |_| http::Response::new(status, ""));
            assert_eq!(look_up("A-100").unwrap_err().code, code);
        }
    }
}
