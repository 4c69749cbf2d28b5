//! About how many bytes an event takes up in memory.

use serde_json::Value;

use crate::words::{Event, ToolCall};

/// What an event weighs besides its texts.
const BASE: usize = 200;

/// The texts of an event and a little for the rest.
pub(super) fn of(event: &Event) -> usize {
    let texts = match event {
        Event::Started { task, tools } => task.input.len() + tools.len(),
        Event::ModelReplied { reply, .. } => {
            reply.content.len() + reply.tool_calls.iter().map(of_call).sum::<usize>()
        }
        Event::ToolReturned { answer, .. } => answer.content.len(),
        Event::ToolsStarted { indexes } => size_of_val(indexes.as_slice()),
        Event::TakenUp { by } => by.len(),
        Event::Cancelled | Event::HandedBack => 0,
    };
    BASE + texts
}

fn of_call(call: &ToolCall) -> usize {
    call.id.len() + call.name.len() + of_value(&call.arguments)
}

fn of_value(value: &Value) -> usize {
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(parts) => parts.iter().map(of_value).sum(),
        Value::Object(members) => members.iter().map(|(name, part)| name.len() + of_value(part)).sum(),
    };
    size_of::<Value>() + within
}
