//! The body of `POST /v1/chat`: the messages of a chat as the Vercel AI SDK keeps them (`UIMessage`), each a
//! list of parts.

use agent_core::words::{ContentPart, Image, Options, UserContent};
use serde_json::{Value, json};

use super::super::input::approvals::{ApprovalAnswer, Names, read_named};
use super::super::input::conversation::{Conversation, RunInput, check_length};
use super::super::input::parameters::{Fields, list};
use super::chunks::HiddenAnswer;
use http_edge::openapi::schema_parts::of;
use http_edge::variant_b::error::Problem;

/// What a tool is called that the client's code does not know by name.
const ANY_TOOL: &str = "dynamic-tool";

/// What the model is told of a call that the user did not allow.
const DENIED: &str = "The user did not allow this call.";

#[derive(Debug, PartialEq)]
pub(crate) struct UiRequest {
    pub(crate) input: String,
    pub(crate) options: Options,
}

pub(crate) fn read(fields: &Fields) -> Result<UiRequest, Problem> {
    let messages = messages(fields)?;
    let mut conversation = Conversation::default();
    for (index, message) in messages.iter().enumerate() {
        let param = format!("messages[{index}]");
        let Some(Value::Array(parts)) = message.get("parts") else {
            return Err(Problem::wrong_type(format!("{param}.parts"), "a list"));
        };
        check_parts(parts, &param)?;
        match message.get("role").and_then(Value::as_str) {
            Some("system") => conversation.system(texts(parts)),
            Some("user") => conversation.user(of_user(parts, &param)?),
            Some("assistant") => read_steps(parts, &param, &mut conversation)?,
            _ => {
                let roles = "it must be 'system', 'user' or 'assistant'.";
                return Err(Problem::invalid(format!("{param}.role"), roles));
            }
        }
    }
    let RunInput { input, history } = conversation.finish("messages")?;
    Ok(UiRequest { input, options: Options { history, ..Options::default() } })
}

/// Answers of the client's user to calls that wait, with which a chat may end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UiAnswers {
    /// Names the message that goes on with them.
    pub(crate) message_id: String,
    pub(crate) answers: Vec<ApprovalAnswer>,
    /// Answers among them whose calls the message has for their sake only.
    pub(crate) hidden: Vec<HiddenAnswer>,
}

/// What the newest message answers to approval requests; nothing where it answers none.
pub(crate) fn answers(fields: &Fields) -> Result<UiAnswers, Problem> {
    let messages = messages(fields)?;
    let Some((index, last)) = messages.iter().enumerate().next_back() else {
        return Ok(UiAnswers::default());
    };
    if last["role"] != "assistant" {
        return Ok(UiAnswers::default());
    }
    let parts = last["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let step = parts.iter().rposition(|part| kind(part) == "step-start").unwrap_or_default();
    let names = Names { request: "id", approve: "approved" };
    let answered = parts.iter().enumerate().skip(step);
    let answered: Vec<_> =
        answered.filter(|(_, part)| is_tool(part) && part["state"] == "approval-responded").collect();
    let hidden = answered.iter().filter(|(_, part)| is_hidden(part));
    let hidden = hidden.map(|(_, part)| HiddenAnswer {
        id: part["toolCallId"].as_str().unwrap_or_default().to_owned(),
        is_allowed: part["approval"]["approved"] == true,
    });
    let hidden = hidden.collect();
    let read = |(place, part): (usize, &Value)| {
        read_named(&part["approval"], &format!("messages[{index}].parts[{place}].approval"), &names)
    };
    let answers = answered.into_iter().map(read).collect::<Result<_, _>>()?;
    let message_id = last["id"].as_str().unwrap_or_default().to_owned();
    Ok(UiAnswers { message_id, answers, hidden })
}

fn messages(fields: &Fields) -> Result<&[Value], Problem> {
    let messages = list(fields.get("messages"), "messages")?.ok_or_else(|| Problem::missing("messages"))?;
    check_length(messages.len(), "messages")?;
    Ok(messages)
}

fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn texts(parts: &[Value]) -> String {
    let texts = parts.iter().filter(|part| kind(part) == "text").filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Refuses what is no part at all.
fn check_parts(parts: &[Value], param: &str) -> Result<(), Problem> {
    for (index, part) in parts.iter().enumerate() {
        let at = |name: &str| format!("{param}.parts[{index}]{name}");
        if !part.is_object() {
            return Err(Problem::wrong_type(at(""), "an object"));
        }
        if !part["type"].is_string() {
            return Err(Problem::wrong_type(at(".type"), "a string"));
        }
        if part.get("text").is_some_and(|text| !text.is_string()) {
            return Err(Problem::wrong_type(at(".text"), "a string"));
        }
    }
    Ok(())
}

/// Texts and images. Parts that only the client's own code knows (`data-…`) say nothing here.
fn of_user(parts: &[Value], param: &str) -> Result<UserContent, Problem> {
    let files = parts.iter().enumerate().filter(|(_, part)| kind(part) == "file");
    let images: Vec<_> = files
        .map(|(index, file)| image(file, &format!("{param}.parts[{index}]")).map(ContentPart::Image))
        .collect::<Result<_, _>>()?;
    let text = texts(parts);
    if images.is_empty() {
        return Ok(text.into());
    }
    let text = ContentPart::Text { text };
    Ok(UserContent::of_parts(std::iter::once(text).chain(images).collect()))
}

fn image(file: &Value, at: &str) -> Result<Image, Problem> {
    if !file["mediaType"].as_str().is_some_and(|media| media.starts_with("image/")) {
        let why = "The agent reads texts and images.";
        return Err(Problem::unsupported_value(format!("{at}.mediaType"), why));
    }
    let at = format!("{at}.url");
    let url = file.get("url").ok_or_else(|| Problem::missing(&at))?;
    let url = url.as_str().ok_or_else(|| Problem::wrong_type(&at, "a string"))?;
    Image::new(url, None).map_err(|fault| Problem::invalid(at, &fault.to_string()))
}

/// One message of the assistant's for each of its steps: words, then calls, then their answers. A call that
/// nobody has answered is left out, and so is what the model thought.
fn read_steps(parts: &[Value], param: &str, conversation: &mut Conversation) -> Result<(), Problem> {
    let mut step: Vec<&Value> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let is_tool = is_tool(part);
        if is_tool && !part["toolCallId"].is_string() {
            return Err(Problem::missing(&format!("{param}.parts[{index}].toolCallId")));
        }
        let ends_step = kind(part) == "step-start"
            || (kind(part) == "text" && step.last().is_some_and(|last| self::is_tool(last)));
        if ends_step {
            say_step(&std::mem::take(&mut step), conversation);
        }
        if is_tool || kind(part) == "text" {
            step.push(part);
        }
    }
    say_step(&step, conversation);
    Ok(())
}

fn is_tool(part: &Value) -> bool {
    kind(part) == ANY_TOOL || kind(part).starts_with("tool-")
}

fn say_step(parts: &[&Value], conversation: &mut Conversation) {
    let said: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let answered: Vec<_> = parts.iter().filter_map(|part| Some((*part, answer(part)?))).collect();
    let mut calls = Vec::new();
    for (part, _) in &answered {
        let name = part["toolName"].as_str().or(kind(part).strip_prefix("tool-")).unwrap_or_default();
        let id = part["toolCallId"].as_str().unwrap_or_default();
        calls.push(conversation.read_call(id.to_owned(), name.to_owned(), part["input"].to_string()));
    }
    if said.is_empty() && calls.is_empty() {
        return;
    }
    let answers: Vec<_> = calls
        .iter()
        .map(|call| call.id.clone())
        .zip(answered.into_iter().map(|(_, answer)| answer))
        .collect();
    conversation.assistant(said.join("\n"), calls);
    for (id, answer) in answers {
        conversation.answer(id, answer);
    }
}

/// Whether a call stands for what another call or a child run has come to, which the model knows nothing of.
fn is_hidden(part: &Value) -> bool {
    let id = part["toolCallId"].as_str();
    id.is_some() && id == part["approval"]["id"].as_str()
}

/// What a tool answered, if it did.
fn answer(part: &Value) -> Option<String> {
    if !is_tool(part) || is_hidden(part) {
        return None;
    }
    match part["state"].as_str()? {
        "output-available" => Some(match &part["output"] {
            Value::String(text) => text.clone(),
            output => output.to_string(),
        }),
        "output-error" => Some(part["errorText"].as_str().unwrap_or_default().to_owned()),
        "output-denied" => Some(DENIED.to_owned()),
        _ => None,
    }
}

/// The body, for the document.
pub(crate) fn schema() -> Value {
    let part = json!({
        "type": "object", "required": ["type"], "description": "A text, an image, a call of a tool, …",
        "properties": {
            "type": of("string", "What it is.", "text"),
            "text": of("string", "The text of a text.", "What is 6 * 7?"),
        },
    });
    json!({
        "type": "object", "required": ["messages"], "description": "A chat of the Vercel AI SDK.",
        "properties": { "messages": {
            "type": "array", "minItems": 1, "description": "The chat (`UIMessage`), the newest message last.",
            "examples": [[{ "role": "user", "parts": [{ "type": "text", "text": "What is 6 * 7?" }] }]],
            "items": {
                "type": "object", "required": ["role", "parts"], "description": "A message.",
                "properties": {
                    "role": {
                        "type": "string", "enum": ["system", "user", "assistant"], "description": "Who says it.",
                        "examples": ["user"],
                    },
                    "parts": { "type": "array", "items": part, "description": "What is said." },
                },
            },
        } },
    })
}

#[cfg(test)]
mod tests {
    use agent_core::testing::answer;
    use agent_core::words::{Message, ToolCall, Verdict};

    use super::super::super::input::{check_refused, parameters};
    use super::*;

    fn read_all(messages: &Value) -> Result<UiRequest, Problem> {
        read(&parameters::fields(json!({ "id": "chat-1", "messages": messages })).unwrap())
    }

    #[test]
    fn a_chat_is_read_step_by_step() {
        let tool = |kind: &str, id: &str, state: &str, more: &Value| {
            let mut part = json!({"type": kind, "toolCallId": id, "state": state, "input": {"a": 1}});
            part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            part
        };
        let request = read_all(&json!([
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": "1+2?"}]},
            {"id": "2", "role": "assistant", "parts": [
                {"type": "step-start"}, {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Well"},
                tool("dynamic-tool", "a", "output-available", &json!({"toolName": "add", "output": {"sum": 3}})),
                tool("tool-look", "b", "output-error", &json!({"errorText": "no"})),
                tool("tool-look", "c", "approval-requested", &json!({})),
                tool("tool-pay", "d", "output-denied", &json!({})),
                {"type": "step-start"}, {"type": "text", "text": "3"},
            ]},
            {"id": "3", "role": "user", "parts": [{"type": "data-mood", "data": 1}, {"type": "text", "text": "sure?"}]},
        ]))
        .unwrap();
        let call =
            |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: json!({"a": 1}) };
        let calls = vec![call("a", "add"), call("b", "look"), call("d", "pay")];
        let history = vec![
            Message::User { content: "1+2?".into() },
            Message::Assistant { content: "Well".into(), tool_calls: calls },
            answer("a", "add", r#"{"sum":3}"#),
            answer("b", "look", "no"),
            answer("d", "pay", DENIED),
            Message::Assistant { content: "3".into(), tool_calls: vec![] },
        ];
        let options = Options { history, ..Options::default() };
        assert_eq!(request, UiRequest { input: "sure?".into(), options });
        let image = json!({"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"});
        let request = read_all(&json!([{"role": "user", "parts": [{"type": "text", "text": "see"}, image]}]));
        assert_eq!(request.unwrap().options.history[0].images(), 1);
    }

    #[test]
    fn answers_to_approval_requests_end_a_chat() {
        let id = format!("mcpr_1:1.0_3_{}", "9f".repeat(32));
        let part = |approval: Value| json!({"type": "dynamic-tool", "toolCallId": "a", "state": "approval-responded", "approval": approval});
        let read = |messages: Value| answers(&parameters::fields(json!({ "messages": messages })).unwrap());
        let said = json!({"id": "7", "role": "assistant", "parts": [
            part(json!({"id": "long ago", "approved": true})), {"type": "step-start"},
            part(json!({"id": id, "approved": false, "reason": "no"})),
        ]});
        let found = read(json!([said])).unwrap();
        assert_eq!((found.message_id.as_str(), found.answers.len()), ("7", 1));
        assert_eq!(found.answers[0].verdict, Verdict::Reject { reason: Some("no".into()) });
        let user = json!({"role": "user", "parts": []});
        assert_eq!(read(json!([said, user])), Ok(UiAnswers::default()));
        let wrong = json!([{"role": "assistant", "parts": [part(json!({"id": id}))]}]);
        let param = "messages[0].parts[0].approval.approved";
        check_refused(read(wrong), "missing_required_parameter", param);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let one = |message: Value| json!([message]);
        for (messages, code, param) in [
            (json!({}), "invalid_type", "messages"),
            (json!([]), "invalid_value", "messages"),
            (one(json!({"role": "user"})), "invalid_type", "messages[0].parts"),
            (one(json!({"role": "king", "parts": []})), "invalid_value", "messages[0].role"),
            (
                one(json!({"role": "user", "parts": [{"type": "file", "mediaType": "application/pdf"}]})),
                "unsupported_value",
                "messages[0].parts[0].mediaType",
            ),
            (
                one(json!({"role": "user", "parts": [{"type": "file", "mediaType": "image/png"}]})),
                "missing_required_parameter",
                "messages[0].parts[0].url",
            ),
            (
                one(json!({"role": "user", "parts": [
                    {"type": "text", "text": "see"}, {"type": "file", "mediaType": "image/png", "url": "cat.png"},
                ]})),
                "invalid_value",
                "messages[0].parts[1].url",
            ),
            (
                one(json!({"role": "assistant", "parts": [{"type": "tool-add"}]})),
                "missing_required_parameter",
                "messages[0].parts[0].toolCallId",
            ),
        ] {
            check_refused(read_all(&messages), code, param);
        }
    }
}
