//! What is said in a run: messages and the tool calls in them.

use json_schema::{MemoryBudget, PRIVATE_NAMES};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::UserContent;

/// One entry of a run's transcript, in the JSON shape that clients see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// What the model is told about its task by the deployment or the caller. Never part of a result.
    System {
        /// The text.
        content: String,
    },
    /// What the caller says.
    User {
        /// The text as it was sent, or texts and images.
        content: UserContent,
    },
    /// A reply of the model.
    Assistant {
        /// The text of the reply; empty when the model only asked for tools.
        content: String,
        /// The tools the model asked for, in its order.
        #[serde(rename = "toolCalls", default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The answer to one tool call.
    Tool {
        /// [`ToolCall::id`] of the call this answers.
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        /// Name of the tool, as the model wrote it.
        name: String,
        /// What the model is told: the tool's JSON, or an error text that is safe to show.
        content: String,
    },
}

impl Message {
    /// How many images it has.
    pub fn images(&self) -> usize {
        match self {
            Self::User { content } => content.images().count(),
            Self::System { .. } | Self::Assistant { .. } | Self::Tool { .. } => 0,
        }
    }
}

/// A model's wish to have a tool called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; unique within a reply.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// A JSON object. When what the model wrote is not one, this is a JSON string that holds its text
    /// unchanged, and the run answers the call with an error instead of calling the tool.
    pub arguments: Value,
}

impl ToolCall {
    /// A call whose arguments are the text a model wrote, which may be anything. Values that take more than
    /// `memory` has left stay text.
    pub fn from_text(id: String, name: String, arguments: String, memory: &mut MemoryBudget) -> Self {
        // Some providers write nothing at all for a tool without parameters.
        let text = if arguments.trim().is_empty() { "{}" } else { &arguments };
        let arguments = match memory.read(text.as_bytes()) {
            Ok(object @ Value::Object(_)) if may_be_journaled(&object) => object,
            Ok(_) | Err(_) => Value::String(arguments),
        };
        Self { id, name, arguments }
    }

    /// A call whose arguments were read already. Those that may not be journaled are kept as text, as in
    /// [`Self::from_text`].
    pub fn of_object(id: String, name: String, arguments: Map<String, Value>) -> Self {
        let object = Value::Object(arguments);
        let arguments = if may_be_journaled(&object) { object } else { Value::String(object.to_string()) };
        Self { id, name, arguments }
    }

    /// `sha256:…` of the arguments as compact JSON text with the names of every object sorted: the same for
    /// equal arguments, however they were written.
    pub fn arguments_digest(&self) -> String {
        let mut hasher = Sha256::new();
        self.hash_arguments(&mut hasher);
        format!("sha256:{:x}", hasher.finalize())
    }

    /// Hashes the text that [`Self::arguments_digest`] is the digest of.
    pub fn hash_arguments(&self, hasher: &mut Sha256) {
        // Neither can fail: a value is always JSON, and hashing takes every byte.
        let _ = serde_json::to_writer(hasher, &Canonical(&self.arguments));
    }
}

/// A value whose objects are written in the order of their names.
struct Canonical<'a>(&'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(parts) => serializer.collect_seq(parts.iter().map(Canonical)),
            Value::Object(members) => {
                let mut sorted: Vec<_> =
                    members.iter().map(|(name, value)| (name, Canonical(value))).collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                serializer.collect_map(sorted)
            }
            leaf => leaf.serialize(serializer),
        }
    }
}

/// Deepest nesting of arguments. JSON parsers stop at 128 levels, and what stands around the arguments in a
/// transcript or a journal has to be readable as well.
const MOST_LEVELS: u32 = 100;

/// Whether a value may stand in a journal, which is read again: it is nested in at most 100 levels and has
/// none of the [`PRIVATE_NAMES`].
pub fn may_be_journaled(value: &Value) -> bool {
    is_readable(value, MOST_LEVELS)
}

fn is_readable(value: &Value, levels: u32) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(parts) => parts.iter().all(|part| is_readable(part, below)),
        Value::Object(members) => {
            let mut members = members.iter();
            members.all(|(name, part)| !name.starts_with(PRIVATE_NAMES) && is_readable(part, below))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_no_json_object_are_kept_as_text() {
        let arguments = |text: &str| {
            let mut memory = MemoryBudget::default();
            ToolCall::from_text("1".into(), "t".into(), text.into(), &mut memory).arguments
        };
        assert_eq!(arguments(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(arguments("  "), json!({}));
        assert_eq!(arguments("[1]"), json!("[1]"));
        assert_eq!(arguments("\"a\""), json!("\"a\""));
        assert_eq!(arguments(r#"{"a":"#), json!(r#"{"a":"#));
        let nested = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(arguments(&nested(98)).is_object());
        assert!(arguments(&nested(110)).is_string(), "deeper than a journal could be read");
        let private = r#"{"a":1,"$serde_json::private::RawValue":0}"#;
        assert!(arguments(private).is_string(), "a journal could not be read");
        let object = json!({ "a": { "$serde_json::private::RawValue": "[1]" } });
        let Value::Object(object) = object else { panic!() };
        assert!(ToolCall::of_object("1".into(), "t".into(), object).arguments.is_string());
        let dense = format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(1 << 20));
        assert!(arguments(&dense).is_string(), "its values would take a gigabyte");
    }

    #[test]
    fn equal_arguments_have_one_digest_however_they_were_written() {
        let digest = |text: &str| {
            let mut memory = MemoryBudget::default();
            ToolCall::from_text("1".into(), "t".into(), text.into(), &mut memory).arguments_digest()
        };
        let one = digest(r#"{"b": [1, {"y": null, "x": 0.5}], "a": "ä"}"#);
        assert_eq!(one, digest(r#"{"a":"\u00e4","b":[1,{"x":5e-1,"y":null}]}"#));
        assert_ne!(one, digest(r#"{"a":"ä","b":[{"x":0.5,"y":null},1]}"#));
        // As other programs compute it.
        assert_eq!(
            digest(""),
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "of {{}}"
        );
    }

    #[test]
    fn messages_have_the_shape_that_clients_read() {
        let call = ToolCall { id: "call_1".into(), name: "add".into(), arguments: json!({"a": 1}) };
        let transcript = [
            Message::User { content: "hi".into() },
            Message::Assistant { content: String::new(), tool_calls: vec![call] },
            Message::Tool { tool_call_id: "call_1".into(), name: "add".into(), content: "3".into() },
            Message::Assistant { content: "3".into(), tool_calls: vec![] },
        ];
        assert_eq!(
            serde_json::to_value(&transcript).unwrap(),
            json!([
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "",
                 "toolCalls": [{"id": "call_1", "name": "add", "arguments": {"a": 1}}]},
                {"role": "tool", "toolCallId": "call_1", "name": "add", "content": "3"},
                {"role": "assistant", "content": "3"},
            ])
        );
    }
}
