//! The functions that a client offers (`tools` of a request), and those that the model called.
//!
//! A call of one ends the run and is the client's to carry out; its answer comes with the next request, as
//! part of the conversation.

use std::collections::BTreeSet;

use agent_core::words::{
    AgentResult, ClientFunction, MOST_CLIENT_FUNCTIONS, Message, Options, RequiredCall, StopReason, ToolCall,
};
use serde_json::{Value, json};

use super::super::models;
use super::parameters::{Fields, list};
use http_edge::VariantB;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::error::{Error, Problem};

/// Longest name of a function or a schema, in bytes, as OpenAI has it.
const LONGEST_NAME: usize = 64;

/// A function or a schema, which clients name.
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    /// What it is described by.
    pub(crate) described: &'a Value,
    /// Where that is in the request.
    pub(crate) at: String,
}

impl<'a> Named<'a> {
    /// `within` is the field that has the description: chat completions have one.
    pub(crate) fn read(whole: &'a Value, within: Option<&str>, param: &str) -> Result<Self, Problem> {
        let (described, at) = match within {
            Some(name) => (whole.get(name).unwrap_or(&Value::Null), format!("{param}.{name}")),
            None => (whole, param.to_owned()),
        };
        let name = described.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
            let why = format!("it must be 1 to {LONGEST_NAME} letters, digits, '_' and '-'.");
            return Err(Problem::invalid(format!("{at}.name"), &why));
        }
        Ok(Self { name, described, at })
    }
}

/// The functions of a request. `within` is where a tool has what describes it: chat completions have
/// `function`.
pub(crate) fn read(fields: &Fields, within: Option<&str>) -> Result<Vec<ClientFunction>, Problem> {
    let Some(tools) = list(fields.get("tools"), "tools")? else { return Ok(vec![]) };
    if tools.len() > MOST_CLIENT_FUNCTIONS {
        return Err(Problem::invalid("tools", &format!("it may have at most {MOST_CLIENT_FUNCTIONS}.")));
    }
    let mut names = BTreeSet::new();
    let mut functions = vec![];
    for (index, tool) in tools.iter().enumerate().filter(|(_, tool)| within.is_some() || !is_agent(tool)) {
        let function = read_one(tool, within, &format!("tools[{index}]"))?;
        if !names.insert(function.name.clone()) {
            return Err(Problem::invalid(format!("tools[{index}]"), "another one has the same name."));
        }
        functions.push(function);
    }
    // What may not be called need not be known.
    Ok(if fields.get("tool_choice").is_some_and(|choice| *choice == "none") { vec![] } else { functions })
}

/// Whether it names the agent's own tools, as the server that approval requests come from: clients read such
/// requests of servers only that they have named. Which calls are asked for is the policy's to say.
fn is_agent(tool: &Value) -> bool {
    const SAYS_NOTHING_NEW: [&str; 4] = ["type", "server_label", "server_description", "require_approval"];
    let is_known = |name: &String| SAYS_NOTHING_NEW.contains(&name.as_str());
    tool.get("type").is_some_and(|kind| *kind == "mcp")
        && tool.get("server_label").is_some_and(|label| *label == models::AGENT)
        && tool.as_object().is_some_and(|fields| fields.keys().all(is_known))
}

fn read_one(tool: &Value, within: Option<&str>, param: &str) -> Result<ClientFunction, Problem> {
    if tool.get("type").is_none_or(|kind| *kind != "function") {
        let why = "The agent has its own tools; beside them it can be given functions of the client.";
        return Err(Problem::unsupported_value(format!("{param}.type"), why));
    }
    let Named { name, described, at } = Named::read(tool, within, param)?;
    let parameters = match described.get("parameters") {
        None | Some(Value::Null) => json!({ "type": "object", "properties": {} }),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err(Problem::wrong_type(format!("{at}.parameters"), "an object")),
    };
    let description = described.get("description").and_then(Value::as_str).unwrap_or(name);
    Ok(ClientFunction { name: name.to_owned(), description: description.to_owned(), parameters })
}

/// The functions of a response's request as the response repeats them: with every field, because strict
/// readers refuse one that is absent. `strict` is always false: nothing holds the arguments that the model
/// writes against `parameters`.
pub(crate) fn repeated(fields: &Fields) -> Value {
    let repeat = |tool: &Value| {
        let field = |name: &str, is_right: fn(&Value) -> bool| tool.get(name).filter(|value| is_right(value));
        json!({
            "type": "function", "name": field("name", Value::is_string),
            "description": field("description", Value::is_string),
            "parameters": field("parameters", Value::is_object),
            "strict": false,
        })
    };
    let tools = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
    tools.filter(|tool| !is_agent(tool)).map(repeat).collect()
}

/// Refuses functions that have the name of a tool which the caller's runs have, and names of `tool_choice`
/// that are of neither.
pub(crate) async fn check(variant: &VariantB, caller: &Caller, options: &Options) -> Result<(), Error> {
    let Options { functions, tools: allowed, rules, .. } = options;
    let required = match &rules.first_call {
        Some(RequiredCall::Tool(name)) => Some(name.as_str()),
        Some(RequiredCall::Any) | None => None,
    };
    if functions.is_empty() && required.is_none() && allowed.is_none() {
        return Ok(());
    }
    variant.tool_calls.prepared().await?;
    let tools = variant.toolbox.current_for(&caller.principal());
    let is_tool = |name: &str| tools.catalog().get(name).is_some();
    check_names(functions, is_tool)?;
    let is_known = |name: &str| is_tool(name) || functions.iter().any(|function| function.name == name);
    let mut chosen = allowed.iter().flatten().map(String::as_str).chain(required);
    match chosen.all(is_known) {
        false => Err(Problem::invalid("tool_choice", "there is no tool of this name.").into()),
        true => Ok(()),
    }
}

fn check_names(functions: &[ClientFunction], is_tool: impl Fn(&str) -> bool) -> Result<(), Problem> {
    match functions.iter().position(|function| is_tool(&function.name)) {
        Some(index) => Err(Problem::invalid(format!("tools[{index}]"), "the agent has a tool of this name.")),
        None => Ok(()),
    }
}

/// The calls that are the client's to carry out: those of the last reply that nobody has answered.
pub(crate) fn called(result: &AgentResult) -> Vec<&ToolCall> {
    if result.stop_reason != StopReason::ToolCalls {
        return vec![];
    }
    let mut answered = BTreeSet::new();
    for message in result.messages.iter().rev() {
        match message {
            Message::Tool { tool_call_id, .. } => drop(answered.insert(tool_call_id.as_str())),
            Message::Assistant { tool_calls, .. } => {
                return tool_calls.iter().filter(|call| !answered.contains(call.id.as_str())).collect();
            }
            Message::System { .. } | Message::User { .. } => {}
        }
    }
    vec![]
}

/// Arguments as the text that clients of OpenAI read. What is no object is the text that the model wrote.
pub(crate) fn arguments_text(call: &ToolCall) -> String {
    call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(tools: Value) -> Fields {
        Fields::from_iter([("tools".to_owned(), tools)])
    }

    #[test]
    fn functions_are_read_in_both_forms() {
        let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
        let described =
            json!({"name": "look", "description": "Looks.", "parameters": schema, "strict": true});
        let of_chat = fields(json!([{"type": "function", "function": described}]));
        let mut flat = described.clone();
        flat["type"] = json!("function");
        let of_response = fields(json!([flat]));
        let function =
            ClientFunction { name: "look".into(), description: "Looks.".into(), parameters: schema };
        assert_eq!(read(&of_chat, Some("function")), Ok(vec![function.clone()]));
        assert_eq!(read(&of_response, None), Ok(vec![function.clone()]));
        let least = fields(json!([{"type": "function", "name": "look"}]));
        let mut repeated_one = of_response["tools"].clone();
        repeated_one[0]["strict"] = json!(false);
        assert_eq!(repeated(&of_response), repeated_one);
        let repeats = json!({"type": "function", "name": "look", "description": null, "parameters": null, "strict": false});
        assert_eq!((repeated(&least), repeated(&Fields::new())), (json!([repeats]), json!([])));
        let mut none = of_response;
        none.insert("tool_choice".to_owned(), json!("none"));
        assert_eq!(read(&none, None), Ok(vec![]));
        assert!(check_names(std::slice::from_ref(&function), |name| name == "look").is_err());
        assert!(check_names(&[function], |name| name == "calculate").is_ok());
    }

    #[test]
    fn the_agent_may_be_named_as_the_server_that_asks_for_approvals() {
        let agent = json!({"type": "mcp", "server_label": "agent", "require_approval": "always"});
        let look = json!({"type": "function", "name": "look"});
        let both = fields(json!([agent, look]));
        let names: Vec<_> = read(&both, None).unwrap().into_iter().map(|function| function.name).collect();
        assert_eq!((names, repeated(&both)[0]["name"].as_str()), (vec!["look".to_owned()], Some("look")));
        assert!(read(&both, Some("function")).is_err());
        for other in [
            json!({"type": "mcp", "server_label": "agent", "server_url": "https://example.com"}),
            json!({"type": "mcp", "server_label": "shop"}),
            json!({"type": "mcp"}),
        ] {
            assert!(read(&fields(json!([other])), None).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_function_is_named_by_its_place() {
        let named = |name: &str| json!({"type": "function", "name": name});
        for (tools, code, param) in [
            (json!({}), "invalid_type", "tools"),
            (json!([{"type": "web_search"}]), "unsupported_value", "tools[0].type"),
            (json!([named("")]), "invalid_value", "tools[0].name"),
            (json!([named("a b")]), "invalid_value", "tools[0].name"),
            (json!([named(&"x".repeat(65))]), "invalid_value", "tools[0].name"),
            (json!([named("a"), named("a")]), "invalid_value", "tools[1]"),
            (
                json!([{"type": "function", "name": "a", "parameters": 1}]),
                "invalid_type",
                "tools[0].parameters",
            ),
            (json!(vec![named("a"); 65]), "invalid_value", "tools"),
        ] {
            super::super::check_refused(read(&fields(tools), None), code, param);
        }
    }
}
