//! What a valid request body is: `{"input": "…"}`, and `options.tools` and `options.history` if they are
//! there. Keys that nobody asked for are ignored, whatever they hold.

use std::fmt;

use agent_core::words::{MOST_CHOSEN_TOOLS, MOST_HISTORY_MESSAGES, Message, Options};
use serde_json::{Value, json};

use crate::request::history::{CHOSEN_TOOLS, HISTORY};
use crate::request::output_schema::{self, OUTPUT_SCHEMA};
use crate::request::{Field, Issue, Object, Request, Step, dotted, read, request};

request! {
    /// What the agent is asked.
    pub(super) struct InvokeRequest = Object::OPEN;

    /// The user's text. The body's limit bounds it.
    input: String = Field::text("input").least(1).required().example(|| json!("What is 6 * 7?"));

    options: InvokeOptions =
        Field::new("options", InvokeOptions::KIND).example(|| json!({ "tools": ["calculate"] }));
}

request! {
    /// What is chosen for this run.
    pub(super) struct InvokeOptions = Object::LENIENT;

    /// Names of the only tools that the run has. Without it the run has all of them.
    tools: Option<Vec<String>> = CHOSEN_TOOLS;

    history: Option<Vec<Message>> = HISTORY;
    output_schema: Option<Value> = OUTPUT_SCHEMA;
}

impl InvokeOptions {
    pub(super) fn of_run(self) -> Options {
        let Self { tools, history, output_schema } = self;
        let (history, rules) = (history.unwrap_or_default(), output_schema::rules(output_schema));
        Options { tools, history, rules, ..Options::default() }
    }
}

/// The first thing that is wrong with a request that is JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) struct InputError(Issue);

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.path(), &self.0) {
            ([], _) => f.write_str("the body is not a JSON object"),
            ([_, Step::Name("tools"), ..], _) => {
                write!(f, "`options.tools` is not a list of at most {MOST_CHOSEN_TOOLS} names")
            }
            ([_, Step::Name("history"), ..], _) => {
                write!(f, "`options.history` is not a list of at most {MOST_HISTORY_MESSAGES} messages")
            }
            ([_, Step::Name("outputSchema"), ..], _) => {
                f.write_str("`options.outputSchema` is not an object")
            }
            (path, Issue::InvalidType { received: "undefined", .. }) => {
                write!(f, "`{}` is missing", dotted(path))
            }
            (path, Issue::TooSmall { .. }) => write!(f, "`{}` is empty", dotted(path)),
            (path, _) => write!(f, "`{}` is not a string", dotted(path)),
        }
    }
}

impl InputError {
    /// One for the document.
    pub(super) fn example() -> Self {
        Self(InvokeRequest::OBJECT.likely_issue())
    }
}

pub(super) fn read_request(body: Value) -> Result<InvokeRequest, InputError> {
    read(body).map_err(|issues| InputError(issues.first()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(options: &Value) -> Result<Options, String> {
        let request = read_request(json!({"input": "hi", "options": options}));
        request.map(|request| request.options.of_run()).map_err(|error| error.to_string())
    }

    fn tools(chosen: &Value) -> Result<Option<Vec<String>>, String> {
        options(chosen).map(|options| options.tools)
    }

    #[test]
    fn tools_may_be_chosen_by_their_names() {
        assert_eq!(tools(&json!({"tools": ["add", "add"]})), Ok(Some(vec!["add".into(), "add".into()])));
        assert_eq!(tools(&json!({"tools": []})), Ok(Some(vec![])));
        assert_eq!(tools(&json!({"tools": vec!["add"; 64]})).unwrap().unwrap().len(), 64);
        for wrong in [json!(null), json!("add"), json!({"0": "add"}), json!([1]), json!(vec!["add"; 65])] {
            let error = "`options.tools` is not a list of at most 64 names";
            assert_eq!(tools(&json!({ "tools": wrong })), Err(error.to_owned()));
        }
    }

    #[test]
    fn what_was_said_before_is_a_list_of_messages() {
        let read = |history: Value| options(&json!({ "history": history })).map(|options| options.history);
        let said = read(json!([{"role": "user", "content": "a"}]));
        assert_eq!(said, Ok(vec![Message::User { content: "a".into() }]));
        for wrong in [json!(null), json!({}), json!(["a"]), json!([{"role": "tool", "content": "a"}])] {
            let error = "`options.history` is not a list of at most 200 messages";
            assert_eq!(read(wrong), Err(error.to_owned()));
        }
    }

    #[test]
    fn options_that_variant_a_does_not_have_are_ignored_whatever_they_are() {
        let of_variant_b = json!({"maxTokens": 100, "temperature": 1.5});
        let garbled = json!({"maxTokens": "x"});
        for ignored in [json!(null), json!("tools"), json!(["tools"]), json!({}), garbled, of_variant_b] {
            assert_eq!(options(&ignored), Ok(Options::default()), "{ignored}");
        }
    }
}
