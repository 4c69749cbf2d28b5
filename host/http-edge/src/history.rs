//! What was said before a request (`options.history`), as both variants take it: a list of texts, each with who said it.

use agent_core::words::{LONGEST_HISTORY_MESSAGE, MOST_HISTORY_MESSAGES, Message};
use serde_json::{Value, json};

/// Who may have said something.
pub(crate) const ROLES: [&str; 3] = ["user", "assistant", "system"];

/// What is wrong with a history, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wrong<'a> {
    /// Which message, counted from 0; none when it is the list itself.
    pub(crate) index: Option<usize>,
    /// Which of its fields.
    pub(crate) field: Option<&'static str>,
    pub(crate) fault: Fault<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault<'a> {
    /// A value of another type, or none.
    Type {
        expected: &'static str,
        received: Option<&'a Value>,
    },
    /// None of [`ROLES`].
    Role(&'a str),
    Empty,
    TooLong,
    TooMany,
}

/// The messages, or everything that is wrong with them. Keys that nobody asked for are ignored.
pub(crate) fn read(history: &Value) -> Result<Vec<Message>, Vec<Wrong<'_>>> {
    let whole = |fault| vec![Wrong { index: None, field: None, fault }];
    let Some(messages) = history.as_array() else {
        return Err(whole(Fault::Type { expected: "array", received: Some(history) }));
    };
    if messages.len() > MOST_HISTORY_MESSAGES {
        // Without an issue for each message, of which there may be any number.
        return Err(whole(Fault::TooMany));
    }
    let mut wrong = vec![];
    let read = messages.iter().enumerate().filter_map(|(index, message)| {
        read_message(message)
            .map_err(|faults| {
                wrong.extend(faults.into_iter().map(|(field, fault)| Wrong {
                    index: Some(index),
                    field,
                    fault,
                }));
            })
            .ok()
    });
    let read: Vec<_> = read.collect();
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

type Faults<'a> = Vec<(Option<&'static str>, Fault<'a>)>;

fn read_message(message: &Value) -> Result<Message, Faults<'_>> {
    if !message.is_object() {
        return Err(vec![(None, Fault::Type { expected: "object", received: Some(message) })]);
    }
    let text = |name| match message.get(name) {
        Some(Value::String(text)) => Ok(text.as_str()),
        other => Err(Fault::Type { expected: "string", received: other }),
    };
    let role = text("role").and_then(|role| ROLES.contains(&role).then_some(role).ok_or(Fault::Role(role)));
    let content = text("content").and_then(|content| match content.chars().count() {
        0 => Err(Fault::Empty),
        count if count > LONGEST_HISTORY_MESSAGE => Err(Fault::TooLong),
        _ => Ok(content.to_owned()),
    });
    match (role, content) {
        (Ok("assistant"), Ok(content)) => Ok(Message::Assistant { content, tool_calls: vec![] }),
        (Ok("system"), Ok(content)) => Ok(Message::System { content }),
        (Ok(_), Ok(content)) => Ok(Message::User { content: content.into() }),
        (role, content) => {
            let of_role = role.err().map(|fault| (Some("role"), fault));
            Err(of_role.into_iter().chain(content.err().map(|fault| (Some("content"), fault))).collect())
        }
    }
}

/// What [`read`] takes, for the document.
pub(crate) fn schema() -> Value {
    json!({
        "type": "array", "maxItems": MOST_HISTORY_MESSAGES,
        "description": "What was said before, the oldest first. What the token budget has no room for is left out, the \
                        oldest turns first.",
        "examples": [[{ "role": "user", "content": "I am Ada." }, { "role": "assistant", "content": "Hello, Ada!" }]],
        "items": {
            "type": "object", "required": ["role", "content"], "description": "One message.",
            "properties": {
                "role": {
                    "type": "string", "enum": ROLES, "examples": ["user"],
                    "description": "Who said it. `system` tells the model about its task, after what the deployment tells it.",
                },
                "content": {
                    "type": "string", "minLength": 1, "maxLength": LONGEST_HISTORY_MESSAGE,
                    "description": "The text.", "examples": ["I am Ada."],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_or_everything_is_said_that_is_wrong() {
        let history = json!([
            {"role": "system", "content": "be kind", "name": "ignored"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
        ]);
        let said = Message::Assistant { content: "hello".into(), tool_calls: vec![] };
        let (told, asked) =
            (Message::System { content: "be kind".into() }, Message::User { content: "hi".into() });
        assert_eq!(read(&history), Ok(vec![told, asked, said]));
        let longest =
            |more: usize| json!([{"role": "user", "content": "é".repeat(LONGEST_HISTORY_MESSAGE + more)}]);
        assert_eq!(read(&longest(0)).unwrap().len(), 1);
        let places = |history: &Value| -> Vec<_> {
            let wrong = read(history).unwrap_err();
            wrong.into_iter().map(|wrong| (wrong.index, wrong.field)).collect()
        };
        assert_eq!(places(&longest(1)), [(Some(0), Some("content"))]);
        assert_eq!(places(&json!("hi")), [(None, None)]);
        assert_eq!(places(&json!(vec![json!({"role": "user", "content": "a"}); 201])), [(None, None)]);
        let wrong =
            json!([1, {"role": "tool", "content": 1}, {"role": "user", "content": "a"}, {"content": ""}]);
        let (role, content) = (Some("role"), Some("content"));
        assert_eq!(
            places(&wrong),
            [(Some(0), None), (Some(1), role), (Some(1), content), (Some(3), role), (Some(3), content)]
        );
    }
}
