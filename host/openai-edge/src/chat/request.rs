//! The body of `POST /v1/chat/completions`.

use agent_core::words::{Options, ToolCall};
use serde_json::Value;

use super::super::input::conversation::{Conversation, RunInput, check_calls, check_length};
use super::super::input::parameters::{self, Fields, OF_COMPLETIONS, STREAM, TEMPERATURE, list};
use super::super::input::{allowed_tools, content, functions, rules};
use http_edge::variant_b::error::Problem;

/// What a client asks.
#[derive(Debug, PartialEq)]
pub(crate) struct ChatRequest {
    pub(crate) input: String,
    /// The history as well.
    pub(crate) options: Options,
    pub(crate) stream: bool,
    /// Whether the last chunk of a stream says what the run has cost.
    pub(crate) include_usage: bool,
}

pub(crate) fn read(body: Value) -> Result<ChatRequest, Problem> {
    let fields = parameters::fields(body)?;
    parameters::check_model(&fields)?;
    let messages = list(fields.get("messages"), "messages")?.ok_or_else(|| Problem::missing("messages"))?;
    check_length(messages.len(), "messages")?;
    let mut conversation = Conversation::default();
    for (index, message) in messages.iter().enumerate() {
        read_message(message, &format!("messages[{index}]"), &mut conversation)?;
    }
    parameters::check(&fields, parameters::OF_CHATS)?;
    let [preferred, other] = OF_COMPLETIONS.map(|field| parameters::read(&fields, &field));
    let (preferred, other) = (preferred?, other?);
    let temperature = parameters::read(&fields, &TEMPERATURE)?;
    let functions = functions::read(&fields, Some("function"))?;
    let rules = rules::of_chat(&fields)?;
    let RunInput { input, history } = conversation.finish("messages")?;
    let max_tokens = preferred.or(other);
    let mut options = Options { max_tokens, temperature, functions, history, rules, ..Options::default() };
    allowed_tools::apply(&fields, &mut options)?;
    Ok(ChatRequest {
        input,
        options,
        stream: parameters::read(&fields, &STREAM)?.unwrap_or_default(),
        include_usage: includes_usage(&fields)?,
    })
}

/// Whether the last chunk of a stream says what the run has cost.
fn includes_usage(fields: &Fields) -> Result<bool, Problem> {
    let includes = match fields.get("stream_options") {
        None => None,
        Some(Value::Object(options)) => options.get("include_usage"),
        Some(_) => return Err(Problem::wrong_type("stream_options", "an object")),
    };
    match includes {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(includes)) => Ok(*includes),
        Some(_) => Err(Problem::wrong_type("stream_options.include_usage", "a boolean")),
    }
}

fn read_message(message: &Value, param: &str, conversation: &mut Conversation) -> Result<(), Problem> {
    let at = |name: &str| format!("{param}.{name}");
    let Value::Object(fields) = message else { return Err(Problem::wrong_type(param, "an object")) };
    let content = fields.get("content");
    match fields.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => conversation.system(content::text(content, &at("content"))?),
        Some("user") => conversation.user(content::of_user(content, &at("content"))?),
        Some("assistant") => {
            let calls = read_calls(fields.get("tool_calls"), &at("tool_calls"), conversation)?;
            let mut said = content::text_if_any(content, &at("content"))?;
            // As clients send back what they were answered: one of the two is null.
            if said.is_empty() {
                said = content::text_if_any(fields.get("refusal"), &at("refusal"))?;
            }
            conversation.assistant(said, calls);
        }
        Some("tool") => {
            let id = fields.get("tool_call_id").and_then(Value::as_str);
            let id = id.ok_or_else(|| Problem::missing(&at("tool_call_id")))?;
            conversation.answer(id.to_owned(), content::text(content, &at("content"))?);
        }
        Some("function") => {
            let why = "Send a tool call and a message of the role 'tool'.";
            return Err(Problem::unsupported_value(at("role"), why));
        }
        Some(_) => {
            let roles = "it must be 'system', 'developer', 'user', 'assistant' or 'tool'.";
            return Err(Problem::invalid(at("role"), roles));
        }
        None => return Err(Problem::missing(&at("role"))),
    }
    Ok(())
}

fn read_calls(
    calls: Option<&Value>,
    param: &str,
    conversation: &mut Conversation,
) -> Result<Vec<ToolCall>, Problem> {
    let Some(calls) = list(calls, param)? else { return Ok(vec![]) };
    check_calls(calls.len(), param)?;
    let read = |(index, call): (usize, &Value)| {
        let text = |place: &str| call.pointer(place).and_then(Value::as_str).map(str::to_owned);
        match (text("/id"), text("/function/name"), text("/function/arguments")) {
            (Some(id), Some(name), Some(arguments)) => Ok(conversation.read_call(id, name, arguments)),
            _ => Err(Problem::invalid(format!("{param}[{index}]"), "it must be the call of a function.")),
        }
    };
    calls.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use agent_core::words::Message;
    use serde_json::json;

    use super::*;

    fn refused(body: Value) -> (Value, Value) {
        let mut error = read(body).unwrap_err().body()["error"].take();
        (error["code"].take(), error["param"].take())
    }

    #[test]
    fn a_message_of_too_many_calls_is_refused_by_name() {
        let call = json!({"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}});
        let said = json!({"role": "assistant", "content": null, "tool_calls": vec![call; 2_001]});
        let asked = json!({"model": "agent", "messages": [{"role": "user", "content": "a"}, said]});
        assert_eq!(refused(asked).1, "messages[1].tool_calls");
    }

    #[test]
    fn a_whole_conversation_is_read() {
        let request = read(json!({
            "model": "agent", "max_tokens": 50, "temperature": 0.5, "stream": true, "top_p": 0.9,
            "stream_options": {"include_usage": true},
            "messages": [
                {"role": "developer", "content": "be kind"},
                {"role": "user", "content": [{"type": "text", "text": "1+2?"}], "name": "ada"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\"x\":1}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "3"},
                {"role": "assistant", "content": "3", "refusal": null},
                {"role": "user", "content": "sure?"},
            ],
        }))
        .unwrap();
        let call = ToolCall { id: "a".into(), name: "add".into(), arguments: json!({"x": 1}) };
        let history = vec![
            Message::System { content: "be kind".into() },
            Message::User { content: "1+2?".into() },
            Message::Assistant { content: String::new(), tool_calls: vec![call] },
            Message::Tool { tool_call_id: "a".into(), name: "add".into(), content: "3".into() },
            Message::Assistant { content: "3".into(), tool_calls: vec![] },
        ];
        let options = Options { max_tokens: Some(50), temperature: Some(0.5), history, ..Options::default() };
        let input = "sure?".to_owned();
        assert_eq!(request, ChatRequest { input, options, stream: true, include_usage: true });
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let of = |messages: Value| json!({"model": "agent", "messages": messages});
        let one = |message: Value| of(json!([message]));
        for (body, code, param) in [
            (json!([]), "invalid_type", json!(null)),
            (json!({}), "missing_required_parameter", json!("model")),
            (json!({"model": 1}), "invalid_type", json!("model")),
            (json!({"model": "gpt-5", "messages": []}), "model_not_found", json!("model")),
            (json!({"model": "agent"}), "missing_required_parameter", json!("messages")),
            (of(json!("hi")), "invalid_type", json!("messages")),
            (of(json!([])), "invalid_value", json!("messages")),
            (of(json!(["hi"])), "invalid_type", json!("messages[0]")),
            (one(json!({"content": "hi"})), "missing_required_parameter", json!("messages[0].role")),
            (one(json!({"role": "king", "content": "hi"})), "invalid_value", json!("messages[0].role")),
            (
                one(json!({"role": "function", "content": "hi"})),
                "unsupported_value",
                json!("messages[0].role"),
            ),
            (one(json!({"role": "user"})), "missing_required_parameter", json!("messages[0].content")),
            (
                one(json!({"role": "tool", "content": "3"})),
                "missing_required_parameter",
                json!("messages[0].tool_call_id"),
            ),
            (
                one(json!({"role": "tool", "content": "3", "tool_call_id": "a"})),
                "invalid_value",
                json!("messages"),
            ),
            (
                one(json!({"role": "assistant", "tool_calls": [{}]})),
                "invalid_value",
                json!("messages[0].tool_calls[0]"),
            ),
            (
                json!({"model": "agent", "messages": [{"role": "user", "content": "hi"}], "stream": 1}),
                "invalid_type",
                json!("stream"),
            ),
            (
                json!({"model": "agent", "messages": [{"role": "user", "content": "hi"}], "stream_options": 1}),
                "invalid_type",
                json!("stream_options"),
            ),
            (
                json!({"model": "agent", "messages": [{"role": "user", "content": "hi"}], "n": 2}),
                "unsupported_value",
                json!("n"),
            ),
        ] {
            assert_eq!(refused(body.clone()), (json!(code), param), "{body}");
        }
    }

    #[test]
    fn the_newer_name_of_the_limit_counts_and_the_older_one_has_to_be_right() {
        let asked = |more: (&str, Value)| {
            let mut body = json!({"model": "agent", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 7});
            body[more.0] = more.1;
            body
        };
        assert_eq!(read(asked(("max_tokens", json!(5)))).unwrap().options.max_tokens, Some(7));
        assert_eq!(refused(asked(("max_tokens", json!("5")))).1, "max_tokens");
    }

    #[test]
    fn a_refusal_is_what_the_agent_said_where_it_said_nothing_else() {
        let asked = |content: Value, refusal: Value| {
            let said = json!({"role": "assistant", "content": content, "refusal": refusal});
            let user = json!({"role": "user", "content": "hi"});
            read(json!({"model": "agent", "messages": [user, said, user]}))
        };
        for (content, refusal, words) in [
            (json!(null), json!("It is no JSON."), "It is no JSON."),
            (json!("3"), json!("It is no JSON."), "3"),
            (json!("3"), json!(null), "3"),
        ] {
            let said = asked(content, refusal).unwrap().options.history.remove(1);
            assert_eq!(said, Message::Assistant { content: words.into(), tool_calls: vec![] });
        }
        assert!(asked(json!(null), json!(1)).is_err());
    }

    #[test]
    fn null_is_as_good_as_nothing_in_the_options_of_a_stream_too() {
        let asked = |options: &Value| {
            let messages = json!([{"role": "user", "content": "hi"}]);
            json!({"model": "agent", "messages": messages, "stream_options": options})
        };
        for (options, includes) in [
            (json!(null), false),
            (json!({}), false),
            (json!({"include_usage": null}), false),
            (json!({"include_usage": false}), false),
            (json!({"include_usage": true}), true),
        ] {
            assert_eq!(read(asked(&options)).unwrap().include_usage, includes, "{options}");
        }
        assert_eq!(refused(asked(&json!({"include_usage": 1}))).1, "stream_options.include_usage");
    }

    #[test]
    fn too_many_messages_are_refused_unread() {
        // Not one of them is a message.
        let (_, param) = refused(json!({ "model": "agent", "messages": vec![1; 2_001] }));
        assert_eq!(param, "messages");
    }
}
