//! What a valid request body is: `{"input": "…"}`, and `options.tools` and `options.history` if they are there. Keys that nobody asked for are
//! ignored, whatever they hold.

use agent_core::words::{MOST_CHOSEN_TOOLS, MOST_HISTORY_MESSAGES, Options};
use serde_json::{Value, json};

use crate::history;

/// What a caller asks.
#[derive(Debug, PartialEq)]
pub(super) struct InvokeRequest {
    /// The caller's text as it was sent: blanks count as text, and what they mean is the model's to decide.
    pub(super) input: String,
    /// Nothing but the tools and the history is chosen here.
    pub(super) options: Options,
}

/// What is wrong with a request that is JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error("`input` is missing")]
    Missing,
    #[error("`input` is not a string")]
    NotAString,
    #[error("`input` is empty")]
    Empty,
    #[error("`options.tools` is not a list of at most {} names", MOST_CHOSEN_TOOLS)]
    Tools,
    #[error("`options.history` is not a list of at most {} messages", MOST_HISTORY_MESSAGES)]
    History,
}

pub(super) fn read_request(body: Value) -> Result<InvokeRequest, InputError> {
    let Value::Object(mut fields) = body else { return Err(InputError::NotAnObject) };
    let input = match fields.remove("input") {
        None => return Err(InputError::Missing),
        Some(Value::String(input)) if input.is_empty() => return Err(InputError::Empty),
        Some(Value::String(input)) => input,
        Some(_) => return Err(InputError::NotAString),
    };
    let chosen = fields.get("options").and_then(|options| options.get("tools"));
    let tools = chosen.map(read_tools).transpose()?;
    let said = fields.get("options").and_then(|options| options.get("history"));
    let history = said.map(|said| history::read(said).map_err(|_wrong| InputError::History)).transpose()?;
    let history = history.unwrap_or_default();
    Ok(InvokeRequest { input, options: Options { tools, history, ..Options::default() } })
}

/// What [`read_request`] takes, by name.
pub(super) fn schema() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "required": ["input"], "description": "What the agent is asked.",
        "properties": {
            "input": {
                "type": "string", "minLength": 1, "description": "The user's text. The body's limit bounds it.",
                "examples": ["What is 6 * 7?"],
            },
            // Without a type: what is no object is ignored.
            "options": {
                "description": "What is chosen for this run.", "examples": [{ "tools": ["calculate"] }],
                "properties": { "tools": {
                    "type": "array", "maxItems": MOST_CHOSEN_TOOLS, "items": { "type": "string" },
                    "description": "Names of the only tools that the run has. Without it the run has all of them.",
                    "examples": [["calculate"]],
                }, "history": history::schema() },
            },
        },
    });
    ("InvokeRequest", schema)
}

fn read_tools(tools: &Value) -> Result<Vec<String>, InputError> {
    let names = tools.as_array().filter(|names| names.len() <= MOST_CHOSEN_TOOLS).ok_or(InputError::Tools)?;
    names.iter().map(|name| name.as_str().map(str::to_owned).ok_or(InputError::Tools)).collect()
}

#[cfg(test)]
mod tests {
    use agent_core::words::Message;

    use super::*;

    fn tools(options: &Value) -> Result<Option<Vec<String>>, InputError> {
        Ok(read_request(json!({"input": "hi", "options": options}))?.options.tools)
    }

    #[test]
    fn tools_may_be_chosen_by_their_names() {
        assert_eq!(tools(&json!({"tools": ["add", "add"]})), Ok(Some(vec!["add".into(), "add".into()])));
        assert_eq!(tools(&json!({"tools": []})), Ok(Some(vec![])));
        assert_eq!(tools(&json!({"tools": vec!["add"; 64]})).unwrap().unwrap().len(), 64);
        for wrong in [json!(null), json!("add"), json!({"0": "add"}), json!([1]), json!(vec!["add"; 65])] {
            assert_eq!(tools(&json!({ "tools": wrong })), Err(InputError::Tools));
        }
    }

    #[test]
    fn what_was_said_before_is_a_list_of_messages() {
        let read = |history: Value| read_request(json!({"input": "hi", "options": {"history": history}}));
        let said = read(json!([{"role": "user", "content": "a"}])).unwrap().options.history;
        assert_eq!(said, [Message::User { content: "a".into() }]);
        for wrong in [json!(null), json!({}), json!(["a"]), json!([{"role": "tool", "content": "a"}])] {
            assert_eq!(read(wrong), Err(InputError::History));
        }
    }

    #[test]
    fn options_that_choose_no_tools_are_ignored_whatever_they_are() {
        for options in [json!(null), json!("tools"), json!(["tools"]), json!({}), json!({"maxTokens": "x"})] {
            assert_eq!(tools(&options), Ok(None), "{options}");
        }
    }
}
