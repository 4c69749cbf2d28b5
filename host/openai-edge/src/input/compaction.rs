//! The item that stands for a conversation in fewer words (`compaction`). Clients send it back unread.
//!
//! Its content is the summary in base64. OpenAI encrypts what is there; this has nothing to hide from its
//! client, who was told or could have said all of it.

use agent_core::words::{Message, UserContent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::parameters::Fields;
use http_edge::openapi::schema_parts::{always, of};
use http_edge::variant_b::error::Problem;

/// What the content begins with: whose it is, and which form it has.
const FORM: &str = "agent-host compaction 1\n";

/// What the model is told before a summary.
const INTRODUCTION: &str = "Summary of what was said and done before:";

/// Makes the item of a summary.
pub(crate) fn item(id: &str, summary: &str) -> Value {
    let content = STANDARD.encode(format!("{FORM}{summary}"));
    json!({ "type": "compaction", "id": format!("cmp_{id}"), "encrypted_content": content })
}

/// What the model reads in place of an item.
pub(crate) fn read(fields: &Fields, param: &str) -> Result<String, Problem> {
    let at = format!("{param}.encrypted_content");
    let content = fields.get("encrypted_content").and_then(Value::as_str);
    let decoded = STANDARD.decode(content.ok_or_else(|| Problem::missing(&at))?).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(summary) = text.as_deref().and_then(|text| text.strip_prefix(FORM)) else {
        let why = "it is not of this service: send what POST /v1/responses/compact answered, unchanged.";
        return Err(Problem::invalid(at, why));
    };
    Ok(format!("{INTRODUCTION}\n{summary}"))
}

/// Whether a message is the summary of an earlier compaction, as [`read`] gives it.
pub(crate) fn is_summary(message: &Message) -> bool {
    matches!(message, Message::User { content: UserContent::Text(text) } if text.starts_with(INTRODUCTION))
}

/// The schema of the item, in answers and in requests.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object", "required": ["type", "encrypted_content"], "description": "A conversation in fewer words.",
        "properties": {
            "type": always("compaction", "What it is."),
            "id": of(["string", "null"], "Names it.", "cmp_01a204ec6206715fbb305322b42db99d"),
            "encrypted_content": of("string", "The summary, to be sent back unchanged.", "YWdlbnQtaG9zdCBjb21wYWN0aW9uIDEKQWRhIHNhaWQgaGku"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_here_is_read() {
        let item = item("1", "Ada\nsaid hi.");
        let read = |item: &Value| super::read(item.as_object().unwrap(), "input[0]");
        assert_eq!(read(&item).as_deref(), Ok("Summary of what was said and done before:\nAda\nsaid hi."));
        for (content, code) in [
            (json!(null), "missing_required_parameter"),
            (json!("gAAAAABpM0Yj-"), "invalid_value"),
            (json!(STANDARD.encode("hi")), "invalid_value"),
            (json!(STANDARD.encode([0xff])), "invalid_value"),
        ] {
            let read = read(&json!({ "encrypted_content": content }));
            super::super::check_refused(read, code, "input[0].encrypted_content");
        }
    }
}
