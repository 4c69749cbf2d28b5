//! What the options of a run have in both variants: what was said before it (`history`), a list of texts,
//! each with who said it; and the only tools that it has (`tools`).

use agent_core::words::{LONGEST_HISTORY_MESSAGE, MOST_CHOSEN_TOOLS, MOST_HISTORY_MESSAGES, Message};
use serde_json::{Value, json};

use crate::request::{Field, FromJson, Kind, MOST_QUOTED, Object, Request, request};

const ROLES: &[&str] = &["user", "assistant", "system"];

request! {
    /// One message.
    pub(crate) struct HistoryMessage = Object::OPEN;

    /// Who said it. `system` tells the model about its task, after what the deployment tells it.
    role: String = Field::new("role", Kind::Word { words: || ROLES.to_vec(), most_quoted: MOST_QUOTED })
        .required()
        .example(|| json!("user"));

    /// The text.
    content: String = Field::text("content")
        .least(1)
        .most(LONGEST_HISTORY_MESSAGE as u32)
        .required()
        .example(|| json!("I am Ada."));
}

/// The field of a request's options.
pub(crate) const HISTORY: Field = Field::new(
    "history",
    Kind::List { most: MOST_HISTORY_MESSAGES, item: &HistoryMessage::KIND },
)
.about(
    "What was said before, the oldest first. What the token budget has no room for is left out, the oldest \
             turns first.",
)
.example(
    || json!([{ "role": "user", "content": "I am Ada." }, { "role": "assistant", "content": "Hello, Ada!" }]),
);

/// Names of the only tools that a run has. Which ones the caller has is for the agent to know.
pub(crate) const CHOSEN_TOOLS: Field =
    Field::new("tools", Kind::List { most: MOST_CHOSEN_TOOLS, item: &Kind::Text })
        .example(|| json!(["calculate"]));

impl FromJson for Message {
    fn from_json(value: Option<Value>) -> Option<Self> {
        let HistoryMessage { role, content } = HistoryMessage::from_json(value)?;
        Some(match role.as_str() {
            "assistant" => Self::Assistant { content, tool_calls: vec![] },
            "system" => Self::System { content },
            _ => Self::User { content: content.into() },
        })
    }
}
