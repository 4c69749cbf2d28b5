//! Items that a client adds to a conversation without a run: read as `input` of responses is, and kept as one
//! turn.

use agent_core::words::{Message, Turn};
use run_service::conversations::{MOST_TURN_BYTES, turn_bytes};
use serde_json::Value;

use super::super::head::now_ms;
use super::super::input::conversation::Conversation;
use super::super::input::parameters::list;
use super::super::responses::item_schema::MOST_ITEMS;
use super::super::responses::request::read_item;
use http_edge::variant_b::error::Problem;

/// The turn of that id that they are, said after `before`. Without items it says nothing.
pub(crate) fn read(items: Option<&Value>, before: &[Message], turn_id: String) -> Result<Turn, Problem> {
    let items = list(items, "items")?.unwrap_or_default();
    if items.len() > MOST_ITEMS {
        return Err(Problem::invalid("items", &format!("it may have at most {MOST_ITEMS}.")));
    }
    let mut said = Conversation::after(before);
    for (index, item) in items.iter().enumerate() {
        read_item(item, &format!("items[{index}]"), &mut said)?;
    }
    let mut messages = said.into_messages("items")?;
    // What says nothing would stand in every later prompt.
    messages.retain(|message| !matches!(message, Message::User { content } if content.bytes() == 0));
    if messages.iter().any(|message| matches!(message, Message::System { .. })) {
        let why = "A conversation keeps no instructions: send them as `instructions` of each response.";
        return Err(Problem::unsupported_value("items", why));
    }
    let turn = Turn { id: turn_id, at: now_ms(), asked: Some(messages.len()), messages, ..Turn::default() };
    if turn_bytes(&turn) > MOST_TURN_BYTES {
        let why =
            format!("together they may have at most {MOST_TURN_BYTES} bytes: send them in several requests.");
        return Err(Problem::invalid("items", &why));
    }
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::input::check_refused;
    use super::*;

    fn read(items: &Value) -> Result<Turn, Problem> {
        super::read(Some(items), &[], "t".into())
    }

    #[test]
    fn items_are_a_turn_that_no_run_made() {
        let turn = read(&json!([
            {"role": "user", "content": "hi"},
            {"role": "user", "content": ""},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        ]))
        .unwrap();
        assert_eq!((turn.messages.len(), turn.asked, turn.run_id.as_str()), (2, Some(2), ""));
        // The call may be of a request before.
        let output = json!([{"type": "function_call_output", "call_id": "c", "output": "a cat"}]);
        let answer = super::read(Some(&output), &turn.messages, "t".into()).unwrap().messages;
        let expected =
            Message::Tool { tool_call_id: "c".into(), name: "look".into(), content: "a cat".into() };
        assert_eq!(answer, [expected]);
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let message = |content: &str| json!({"role": "user", "content": content});
        let many: Vec<_> = (0..=MOST_ITEMS).map(|_| message("hi")).collect();
        for (items, code, param) in [
            (json!({}), "invalid_type", "items"),
            (json!(many), "invalid_value", "items"),
            (json!([message(&"x".repeat(MOST_TURN_BYTES))]), "invalid_value", "items"),
            (
                json!([message("hi"), {"role": "developer", "content": "Be kind."}]),
                "unsupported_value",
                "items",
            ),
            (json!([message("hi"), {"type": "computer_call"}]), "unsupported_value", "items[1].type"),
        ] {
            check_refused(read(&items), code, param);
        }
    }
}
