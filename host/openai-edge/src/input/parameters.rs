//! The parameters of requests beside the conversation: which are honoured, which are refused, and which are
//! not looked at.
//!
//! What changes only how a model chooses its words (`top_p`, `seed`, `reasoning`, …), or what a service does
//! beside answering (`store` of chat completions, `metadata`, `service_tier`, …), is not looked at. Where to
//! ignore a parameter would be to lie it is refused, unless it has the value that means what is done anyway.
//! `null` is as good as nothing.

use serde_json::{Map, Value, json};

use super::super::models;
use http_edge::request::{Field, FromJson, Issue, Kind, read_field};
use http_edge::variant_b::error::Problem;

/// The fields of a request.
pub(crate) type Fields = Map<String, Value>;

/// A parameter that is refused.
pub(crate) struct Refused {
    name: &'static str,
    /// Unless it is this.
    harmless: fn(&Value) -> bool,
    /// Whether another value could be sent.
    has_values: bool,
    why: &'static str,
}

const fn parameter(name: &'static str, harmless: fn(&Value) -> bool, why: &'static str) -> Refused {
    Refused { name, harmless, has_values: false, why }
}

const fn value(name: &'static str, harmless: fn(&Value) -> bool, why: &'static str) -> Refused {
    Refused { name, harmless, has_values: true, why }
}

const OWN_TOOLS: &str =
    "The agent has its own tools; beside them it can be given `tools` of the type 'function'.";
const OLD_CHOICE: &str = "Send `tools` and `tool_choice`.";
const NO_PROBABILITIES: &str = "The agent does not say how likely its words were.";
const LEAVES_OUT: &str =
    "The oldest turns are dropped when the token budget has no room for them: leave it out, or send 'auto'.";
const ONE_ANSWER: &str = "The agent gives one answer to each request.";
const NO_SOUND: &str = "The agent answers in text.";
const NO_MODERATION: &str = "Nothing that is said is judged here: moderate it before and behind the agent.";

/// Parameters of chat completions that are refused.
pub(crate) const OF_CHATS: &[Refused] = &[
    value("n", |n| n.as_f64() == Some(1.0), ONE_ANSWER),
    parameter("audio", |_| false, "The agent does not speak."),
    value("modalities", |list| is_list_of(list, "text"), NO_SOUND),
    parameter("functions", is_empty, OWN_TOOLS),
    value("function_call", is_no_choice, OLD_CHOICE),
    parameter("logprobs", |wanted| *wanted == false, NO_PROBABILITIES),
    parameter("top_logprobs", |count| *count == 0, NO_PROBABILITIES),
    parameter("logit_bias", is_empty, "The agent may use any word."),
    parameter("web_search_options", |_| false, OWN_TOOLS),
    parameter("moderation", |_| false, NO_MODERATION),
];

/// Refused parameters of responses.
pub(crate) const OF_RESPONSES: &[Refused] = &[
    value("n", |n| n.as_f64() == Some(1.0), ONE_ANSWER),
    parameter("logprobs", |wanted| *wanted == false, NO_PROBABILITIES),
    parameter("prompt", |_| false, "No prompts are kept here: send `instructions` and `input`."),
    parameter("max_tool_calls", |_| false, "How many tools the agent calls is for the deployment to say."),
    value("truncation", |how| *how == "auto", LEAVES_OUT),
    parameter("top_logprobs", |count| *count == 0, NO_PROBABILITIES),
    value("include", |list| !has(list, "message.output_text.logprobs"), NO_PROBABILITIES),
    parameter("moderation", |_| false, NO_MODERATION),
];

/// Refused in messages of a WebSocket.
pub(crate) const OF_SOCKETS: &[Refused] = &[
    value(
        "background",
        |wanted| *wanted == false,
        "Over a WebSocket a response is always streamed: send a POST.",
    ),
    value("generate", |wanted| *wanted == true, "Nothing is prepared beforehand: send the request itself."),
    parameter("stream_id", |_| false, "A connection has one response at a time: open another one."),
];

/// The fields of a body, without those that are `null`.
pub(crate) fn fields(body: Value) -> Result<Fields, Problem> {
    let Value::Object(mut fields) = body else { return Err(Problem::no_object()) };
    fields.retain(|_, value| !value.is_null());
    Ok(fields)
}

/// Refuses what cannot be.
pub(crate) fn check(fields: &Fields, refused: &[Refused]) -> Result<(), Problem> {
    let found = refused
        .iter()
        .find(|refused| fields.get(refused.name).is_some_and(|value| !(refused.harmless)(value)));
    match found {
        Some(Refused { name, has_values: true, why, .. }) => Err(Problem::unsupported_value(*name, why)),
        Some(Refused { name, why, .. }) => Err(Problem::unsupported_parameter(name, why)),
        None => Ok(()),
    }
}

/// A list that may be absent.
pub(crate) fn list<'a>(value: Option<&'a Value>, param: &str) -> Result<Option<&'a [Value]>, Problem> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(Problem::wrong_type(param, "a list")),
    }
}

/// The model has to be named, and to be the agent.
pub(crate) fn check_model(fields: &Fields) -> Result<(), Problem> {
    match fields.get("model") {
        None => Err(Problem::missing("model")),
        Some(Value::String(id)) if id == models::AGENT => Ok(()),
        Some(Value::String(id)) => Err(Problem::unknown_model(id)),
        Some(_) => Err(Problem::wrong_type("model", "a string")),
    }
}

/// How freely the model chooses its words.
pub(crate) const TEMPERATURE: Field = Field::new("temperature", Kind::Number)
    .least(0)
    .most(2)
    .nullable()
    .about("How freely the model chooses its words.")
    .example(|| json!(0));

pub(crate) const STREAM: Field =
    switch("stream").about("Whether the answer is a stream.").example(|| json!(false));

/// The most tokens of a reply. What is more than the type holds is more than any budget.
pub(crate) const fn tokens(name: &'static str) -> Field {
    let about = "Most tokens that the model may write in one reply.";
    Field::new(name, Kind::WholeNumber).least(1).nullable().about(about).example(|| json!(1000))
}

/// The most tokens of a completion, under the first of these names that is there. The other has to be right
/// as well.
pub(crate) const OF_COMPLETIONS: [Field; 2] = [tokens("max_completion_tokens"), tokens("max_tokens")];

pub(crate) const OF_OUTPUT: Field = tokens("max_output_tokens");

pub(crate) const fn switch(name: &'static str) -> Field {
    Field::new(name, Kind::Truth).nullable()
}

/// The value of a parameter, if it is there.
pub(crate) fn read<T: FromJson>(fields: &Fields, field: &Field) -> Result<Option<T>, Problem> {
    let Some(value) = fields.get(field.name) else { return Ok(None) };
    read_field(field, value).map(Some).map_err(|issue| problem(field, &issue))
}

/// An issue in OpenAI's words.
fn problem(field: &Field, issue: &Issue) -> Problem {
    let is_of_type = !matches!(issue, Issue::InvalidType { expected, .. } if *expected != "integer");
    let [least, most] = [field.least, field.most].map(Option::unwrap_or_default);
    match field.kind {
        Kind::WholeNumber if is_of_type => {
            Problem::invalid(field.name, &format!("it must be a whole number of at least {least}."))
        }
        Kind::WholeNumber => Problem::wrong_type(field.name, "an integer"),
        Kind::Number if is_of_type => {
            Problem::invalid(field.name, &format!("it must be between {least} and {most}."))
        }
        kind => Problem::wrong_type(field.name, &format!("a {}", kind.expected())),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(parts) => parts.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_no_choice(choice: &Value) -> bool {
    *choice == "auto" || *choice == "none"
}

fn is_list_of(list: &Value, word: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().all(|one| *one == word))
}

fn has(list: &Value, word: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|one| *one == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: Value, list: &[Refused]) -> Result<(), Problem> {
        check(&fields(body).unwrap(), list)
    }

    #[test]
    fn what_would_be_a_lie_to_ignore_is_refused_and_nothing_else() {
        for (list, harmless) in [
            (
                OF_CHATS,
                json!({
                    "n": 1, "stop": null, "tools": [], "tool_choice": "auto", "logprobs": false, "logit_bias": {},
                    "response_format": {"type": "text"}, "modalities": ["text"], "top_p": 0.1, "seed": 7, "user": "u",
                    "presence_penalty": 1, "store": true, "metadata": {}, "parallel_tool_calls": true, "unheard_of": 1,
                }),
            ),
            (
                OF_RESPONSES,
                json!({
                    "background": false, "tools": [], "tool_choice": "none", "store": true,
                    "text": {"format": null, "verbosity": "low"},
                    "include": ["reasoning.encrypted_content"], "truncation": "auto", "reasoning": {"effort": "low"},
                    "top_logprobs": 0, "previous_response_id": null,
                }),
            ),
        ] {
            assert_eq!(checked(harmless, list), Ok(()));
        }
        let tool = json!([{"type": "function"}]);
        for (list, name, value, code) in [
            (OF_CHATS, "n", json!(2), "unsupported_value"),
            (OF_CHATS, "audio", json!({}), "unsupported_parameter"),
            (OF_CHATS, "modalities", json!(["text", "audio"]), "unsupported_value"),
            (OF_CHATS, "functions", tool, "unsupported_parameter"),
            (OF_CHATS, "logprobs", json!(true), "unsupported_parameter"),
            (OF_CHATS, "logit_bias", json!({"1": -100}), "unsupported_parameter"),
            (OF_CHATS, "moderation", json!({"model": "omni-moderation-latest"}), "unsupported_parameter"),
            (OF_RESPONSES, "n", json!(2), "unsupported_value"),
            (OF_RESPONSES, "logprobs", json!(true), "unsupported_parameter"),
            (OF_RESPONSES, "truncation", json!("disabled"), "unsupported_value"),
            (OF_RESPONSES, "prompt", json!({"id": "pmpt_1"}), "unsupported_parameter"),
            (OF_RESPONSES, "moderation", json!({"model": "omni-moderation-latest"}), "unsupported_parameter"),
            (OF_RESPONSES, "include", json!(["message.output_text.logprobs"]), "unsupported_value"),
        ] {
            super::super::check_refused(checked(json!({ name: value }), list), code, name);
        }
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let body = |value: Value| fields(json!({"max_tokens": value, "temperature": value})).unwrap();
        let tokens = |value: Value| read::<u32>(&body(value), &OF_COMPLETIONS[1]);
        assert_eq!(tokens(json!(1)), Ok(Some(1)));
        assert_eq!(tokens(json!(1e12)), Ok(Some(u32::MAX)));
        assert_eq!(tokens(json!(null)), Ok(None));
        for wrong in [json!(0), json!(-1), json!(1.5), json!("1")] {
            assert!(tokens(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(read(&body(json!(2)), &TEMPERATURE), Ok(Some(2.0)));
        for wrong in [json!(-0.1), json!(2.1), json!("1")] {
            assert!(read::<f64>(&body(wrong.clone()), &TEMPERATURE).is_err(), "{wrong}");
        }
        let message =
            |value: Value, field: &Field| read::<f64>(&body(value), field).unwrap_err().message().to_owned();
        for (value, field, text) in [
            (json!("1"), &TEMPERATURE, "Invalid type for 'temperature': expected a number."),
            (json!(3), &TEMPERATURE, "Invalid value for 'temperature': it must be between 0 and 2."),
            (json!("1"), &OF_COMPLETIONS[1], "Invalid type for 'max_tokens': expected an integer."),
            (
                json!(0),
                &OF_COMPLETIONS[1],
                "Invalid value for 'max_tokens': it must be a whole number of at least 1.",
            ),
            (
                json!(1.5),
                &OF_COMPLETIONS[1],
                "Invalid value for 'max_tokens': it must be a whole number of at least 1.",
            ),
        ] {
            assert_eq!(message(value, field), text);
        }
    }
}
