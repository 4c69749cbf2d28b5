//! `tool_choice` of the type `allowed_tools`: which of the client's functions and of the agent's own tools a
//! run has. The model is not told of the others.

use std::collections::BTreeSet;

use agent_core::words::{MOST_CHOSEN_TOOLS, Options};
use serde_json::Value;

use super::super::models;
use super::parameters::Fields;
use http_edge::variant_b::error::Problem;

/// What a `tool_choice` says in both protocols: chat completions have it one level deeper.
pub(crate) fn described(choice: &Value) -> &Value {
    choice.get("allowed_tools").unwrap_or(choice)
}

fn name(tool: &Value) -> Option<&str> {
    tool.pointer("/function/name").or(tool.get("name")).and_then(Value::as_str)
}

/// Names of the functions that the run of a kept response has. One that its `tool_choice` excludes may have
/// the name of a tool of the agent, whose calls the response shows.
pub(crate) fn functions_of(response: &Value) -> BTreeSet<String> {
    let choice = &response["tool_choice"];
    let listed = described(choice).get("tools").and_then(Value::as_array);
    let is_allowed = |function: &str| match choice["type"] == "allowed_tools" {
        true => listed.into_iter().flatten().any(|tool| name(tool) == Some(function)),
        false => *choice != "none",
    };
    let tools = response["tools"].as_array().into_iter().flatten();
    tools.filter_map(name).filter(|function| is_allowed(function)).map(str::to_owned).collect()
}

/// Leaves a run what its request allows.
pub(crate) fn apply(fields: &Fields, options: &mut Options) -> Result<(), Problem> {
    let choice = fields.get("tool_choice").filter(|choice| choice["type"] == "allowed_tools");
    let Some(choice) = choice else { return Ok(()) };
    let listed = described(choice).get("tools").and_then(Value::as_array);
    let Some(listed) = listed.filter(|listed| (1..=MOST_CHOSEN_TOOLS).contains(&listed.len())) else {
        let why = format!("it must be a list of 1 to {MOST_CHOSEN_TOOLS} tools.");
        return Err(Problem::invalid("tool_choice.tools", &why));
    };
    let (mut names, mut has_all_of_agent) = (BTreeSet::new(), false);
    for (index, tool) in listed.iter().enumerate() {
        let name = name(tool);
        let is_of_agent = tool.get("server_label").is_none_or(|label| *label == models::AGENT);
        match (tool["type"].as_str(), name) {
            (Some("function"), Some(name)) => drop(names.insert(name)),
            (Some("mcp"), Some(name)) if is_of_agent => drop(names.insert(name)),
            (Some("mcp"), None) if is_of_agent => has_all_of_agent = true,
            _ => {
                let why = "Name a function, one of the agent's tools, or its server 'agent'.";
                return Err(Problem::unsupported_value(format!("tool_choice.tools[{index}]"), why));
            }
        }
    }
    options.functions.retain(|function| names.remove(function.name.as_str()));
    if !has_all_of_agent {
        // What is no function is one of the agent's, or `functions::check` refuses it.
        options.tools = Some(names.into_iter().map(str::to_owned).collect());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use agent_core::words::ClientFunction;
    use serde_json::json;

    use super::*;

    fn applied(choice: Value) -> Result<(Vec<String>, Option<Vec<String>>), Value> {
        let function = |name: &str| ClientFunction {
            name: name.into(),
            description: name.into(),
            parameters: json!({}),
        };
        let functions = vec![function("look"), function("go")];
        let mut options = Options { functions, ..Options::default() };
        let fields = Fields::from_iter([("tool_choice".to_owned(), choice)]);
        apply(&fields, &mut options).map_err(|problem| problem.body()["error"]["param"].take())?;
        Ok((options.functions.into_iter().map(|function| function.name).collect(), options.tools))
    }

    #[test]
    fn a_run_has_what_is_listed_in_either_form() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let both = Ok((names(&["look"]), Some(names(&["add"]))));
        let flat = json!([{"type": "function", "name": "look"}, {"type": "mcp", "server_label": "agent", "name": "add"}]);
        assert_eq!(applied(json!({"type": "allowed_tools", "mode": "auto", "tools": flat})), both);
        let nested = json!([{"type": "function", "function": {"name": "look"}}, {"type": "function", "function": {"name": "add"}}]);
        let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": nested}});
        assert_eq!(applied(choice), both);
        let all = json!([{"type": "mcp", "server_label": "agent"}]);
        assert_eq!(applied(json!({"type": "allowed_tools", "tools": all})), Ok((vec![], None)));
        assert_eq!(applied(json!("auto")), Ok((names(&["look", "go"]), None)));
        for (tools, param) in [
            (json!([]), "tool_choice.tools"),
            (json!(vec![json!({"type": "mcp"}); 65]), "tool_choice.tools"),
            (json!([{"type": "mcp"}, {"type": "function"}]), "tool_choice.tools[1]"),
            (json!([{"type": "mcp", "server_label": "shop"}]), "tool_choice.tools[0]"),
            (json!([{"type": "web_search"}]), "tool_choice.tools[0]"),
        ] {
            assert_eq!(applied(json!({"type": "allowed_tools", "tools": tools})), Err(json!(param)));
        }
    }

    #[test]
    fn the_functions_of_a_kept_response_are_those_that_its_run_has() {
        let tools = json!([{"type": "function", "name": "look"}, {"type": "function", "name": "add"}]);
        let listed = json!([{"type": "function", "name": "look"}]);
        for (choice, names) in [
            (json!("auto"), &["add", "look"][..]),
            (Value::Null, &["add", "look"]),
            (json!("none"), &[]),
            (json!({"type": "allowed_tools", "mode": "auto", "tools": listed}), &["look"]),
            (json!({"type": "function", "name": "look"}), &["add", "look"]),
        ] {
            let found = functions_of(&json!({"tools": tools, "tool_choice": choice}));
            assert!(found.iter().map(String::as_str).eq(names.iter().copied()), "{choice}: {found:?}");
        }
        assert!(functions_of(&Value::Null).is_empty());
    }
}
