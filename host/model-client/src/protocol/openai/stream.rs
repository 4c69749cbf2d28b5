//! Streamed chat completions: chunks, put together into the body of a response.

use agent_core::event_stream::StreamEvent;
use json_schema::MemoryBudget;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::json::Content;
use crate::protocol::UnreadableReply;
use crate::protocol::lenient::lenient;
use crate::protocol::reply_limits::check_calls;
use crate::protocol::streamed_reply::{Part, ReplyAssembler};

/// The first choice of a stream.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    content: String,
    refusal: String,
    calls: Vec<Call>,
    function: Option<Call>,
    finish_reason: Option<String>,
    usage: Option<Value>,
    has_choice: bool,
    /// The server has said that nothing follows.
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "lenient")]
    index: Option<u64>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<Content>,
    #[serde(default, deserialize_with = "lenient")]
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    #[serde(default, deserialize_with = "lenient")]
    function_call: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    #[serde(default, deserialize_with = "lenient")]
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

impl ReplyAssembler for Assembler {
    fn take(&mut self, event: &StreamEvent) -> Result<Part, UnreadableReply> {
        if event.data.trim() == "[DONE]" {
            self.has_ended = true;
            return Ok(Part::End);
        }
        let value = MemoryBudget::default().read(event.data.as_bytes())?;
        // Gemini writes an error as a list of one.
        let error = value.get("error").or_else(|| value.get(0)?.get("error"));
        if error.is_some_and(|error| !error.is_null()) {
            return Ok(Part::Error(event.data.clone().into_bytes()));
        }
        let chunk: Chunk = serde_json::from_value(value)?;
        if let Some(usage) = chunk.usage.filter(|usage| !usage.is_null()) {
            self.usage = Some(usage);
        }
        let mut choices = chunk.choices.into_iter().flatten();
        let Some(choice) = choices.find(|choice| choice.index.unwrap_or_default() == 0) else {
            return Ok(Part::Other(0));
        };
        self.has_choice = true;
        // What a server sends after the reason for the end is no part of the reply.
        if self.finish_reason.is_some() {
            return Ok(Part::Other(0));
        }
        self.finish_reason = choice.finish_reason.filter(|reason| !reason.is_empty());
        self.add(choice.delta.unwrap_or_default())
    }

    fn is_whole(&self) -> bool {
        // A gateway whose provider failed may say the error itself in an event behind that reason.
        self.finish_reason.as_deref().is_some_and(|reason| reason != "error")
    }

    fn into_body(self: Box<Self>) -> Option<Vec<u8>> {
        let Some(finish_reason) = self.finish_reason else {
            // Of nothing but a count of tokens no half is missing.
            let usage = self.usage.filter(|_| self.has_ended && !self.has_choice)?;
            return Some(json!({ "choices": [], "usage": usage }).to_string().into_bytes());
        };
        let mut message = Map::new();
        message.insert("content".into(), self.content.into());
        if !self.refusal.is_empty() {
            message.insert("refusal".into(), self.refusal.into());
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), self.calls.into_iter().map(Call::into_json).collect());
        }
        if let Some(function) = self.function {
            message.insert("function_call".into(), function.into_json()["function"].take());
        }
        let choice = json!({ "message": message, "finish_reason": finish_reason });
        Some(json!({ "choices": [choice], "usage": self.usage }).to_string().into_bytes())
    }
}

impl Assembler {
    fn add(&mut self, delta: Delta) -> Result<Part, UnreadableReply> {
        let mut others = 0;
        for call in delta.tool_calls.into_iter().flatten() {
            others += self.add_call(call)?;
        }
        if let Some(function) = delta.function_call {
            others += self.function.get_or_insert_default().add(function);
        }
        let refusal = delta.refusal.unwrap_or_default();
        others += refusal.len();
        self.refusal.push_str(&refusal);
        let text = delta.content.map(text_of).unwrap_or_default();
        self.content.push_str(&text);
        Ok(if text.is_empty() { Part::Other(others) } else { Part::Text(text) })
    }

    fn add_call(&mut self, delta: CallDelta) -> Result<usize, UnreadableReply> {
        let known = match self.continued_by(&delta) {
            Some(known) => known,
            None => {
                check_calls(self.calls.len() + 1)?;
                self.calls.push(Call { index: delta.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(known) else { return Ok(0) };
        call.id = call.id.take().or(delta.id.filter(|id| !id.is_empty()));
        Ok(call.add(delta.function.unwrap_or_default()))
    }

    /// The call that a delta goes on with; none when the delta begins one.
    ///
    /// Servers that give no index begin a call with its id and go on without one. Gemini's gives the index 0
    /// to every call, so a delta with another id and a name begins a call although its index is taken, and
    /// deltas without an id go on with the newest call of their index. An id alone begins none: some servers
    /// make up another one for each delta.
    fn continued_by(&self, delta: &CallDelta) -> Option<usize> {
        let id = delta.id.as_deref().filter(|id| !id.is_empty());
        let has_id = |call: &Call| id.is_some() && call.id.as_deref() == id;
        let Some(index) = delta.index else {
            return match id {
                Some(_) => self.calls.iter().position(has_id),
                None => self.calls.len().checked_sub(1),
            };
        };
        let has_index = |call: &Call| call.index == Some(index);
        let same = self.calls.iter().rposition(|call| has_index(call) && has_id(call));
        same.or_else(|| {
            let newest = self.calls.iter().rposition(has_index)?;
            let is_named = self.calls.get(newest).is_some_and(|call| call.id.is_some());
            let begins_another = is_named && id.is_some() && delta.names_a_function();
            (!begins_another).then_some(newest)
        })
    }
}

impl CallDelta {
    fn names_a_function(&self) -> bool {
        let name = self.function.as_ref().and_then(|function| function.name.as_deref());
        name.is_some_and(|name| !name.is_empty())
    }
}

impl Call {
    /// Says how many bytes were added.
    fn add(&mut self, delta: FunctionDelta) -> usize {
        let before = self.name.len() + self.arguments.len();
        if self.name.is_empty() {
            self.name = delta.name.unwrap_or_default();
        }
        match delta.arguments {
            Some(Value::String(text)) => self.arguments.push_str(&text),
            Some(Value::Null) | None => {}
            Some(other) => self.arguments.push_str(&other.to_string()),
        }
        self.name.len() + self.arguments.len() - before
    }

    fn into_json(self) -> Value {
        json!({ "id": self.id, "function": { "name": self.name, "arguments": self.arguments } })
    }
}

fn text_of(content: Content) -> String {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_call_counts_once() {
        let mut call = Call::default();
        let delta = |name: Option<&str>| {
            let arguments = Some(Value::from("{}"));
            FunctionDelta { name: name.map(str::to_owned), arguments }
        };
        assert_eq!([Some("add"), None, Some("add")].map(|name| call.add(delta(name))), [5, 2, 2]);
    }
}
