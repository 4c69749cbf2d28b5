//! Anthropic Messages: a conversation as JSON, and a reply from JSON. No I/O.

mod wire;

use std::borrow::Cow;

use agent_core::ports::ModelRequest;
use agent_core::words::{Finish, Message, ModelReply, ToolCall, Usage};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::bounds;
use crate::identifiers::{CallIds, portable_id, portable_name};
use crate::provider::{Prompt, Unreadable};
use wire::{Block, Role, Said, Turn};

/// Anthropic's temperatures end where OpenAI's, and our callers', have their middle.
const HOTTEST: f64 = 1.0;

/// Stands for a caller's text that is nothing but white space: a block of text may not be that, and a
/// conversation must begin with one.
const NO_TEXT: &str = "(no text)";

/// An entry of `tools`.
pub(crate) fn render_tool(
    name: &str,
    description: &str,
    input_schema: &Value,
) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&wire::Tool { name, description, input_schema })
}

/// The body of a request.
pub(crate) fn render(prompt: Prompt<'_>) -> wire::Request<'_> {
    let tool_choice = prompt.forbids_calls().then_some(wire::ToolChoice::None);
    let Prompt { model, request, tools, shape } = prompt;
    wire::Request {
        model,
        max_tokens: shape.tokens(request.max_tokens),
        temperature: shape.temperature.then_some(request.temperature.min(HOTTEST)),
        tools,
        tool_choice,
        messages: turns(request.messages),
    }
}

/// The reply in the body of a successful response.
pub(crate) fn read(body: &[u8], request: &ModelRequest<'_>, who: &str) -> Result<ModelReply, Unreadable> {
    let response: wire::Response = serde_json::from_slice(body)?;
    let finish = match response.stop_reason.as_deref() {
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        _ => Finish::Done,
    };
    let blocks = match response.content {
        Some(blocks) => blocks,
        None if finish == Finish::ContentFilter => Vec::new(),
        None => return Err(Unreadable::empty("it holds no content")),
    };
    bounds::calls(blocks.iter().filter(|block| matches!(block, Said::ToolUse { .. })).count())?;
    let (mut content, mut tool_calls) = (String::new(), Vec::new());
    let mut ids = CallIds::after(request.messages);
    for block in blocks {
        match block {
            Said::Text { text } => content.push_str(&text),
            Said::ToolUse { id, name, input } => {
                let id = ids.claim(id);
                tool_calls.push(match input {
                    arguments @ Value::Object(_) => ToolCall { id, name, arguments },
                    Value::Null => ToolCall::from_text(id, name, String::new()),
                    other => ToolCall::from_text(id, name, other.to_string()),
                });
            }
            Said::Other => {}
        }
    }
    if content.is_empty() && finish == Finish::ContentFilter {
        content = response.stop_details.and_then(|details| details.explanation).unwrap_or_default();
    }
    Ok(ModelReply {
        content,
        tool_calls,
        usage: response.usage.map(|usage| {
            let cached = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
            let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
            Usage {
                input_tokens: bounds::tokens(usage.input_tokens.saturating_add(cached)),
                output_tokens: bounds::tokens(usage.output_tokens),
            }
        }),
        finish,
        model: who.to_owned(),
    })
}

/// The conversation as turns that alternate: what follows in the same role, above all the answers to several
/// tool calls, is one turn.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(message);
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            // A model may reply with nothing, but may not be told that it did.
            _ if blocks.is_empty() => {}
            _ => turns.push(Turn { role, content: blocks }),
        }
    }
    turns
}

fn blocks(message: &Message) -> (Role, Vec<Block<'_>>) {
    match message {
        Message::User { content } => {
            (Role::User, vec![Block::Text { text: worded(content).unwrap_or(NO_TEXT) }])
        }
        Message::Assistant { content, tool_calls } => {
            let text = worded(content).map(|text| Block::Text { text });
            let uses = tool_calls.iter().map(|call| Block::ToolUse {
                id: sent_id(&call.id),
                name: portable_name(&call.name),
                input: sent_input(&call.arguments),
            });
            (Role::Assistant, text.into_iter().chain(uses).collect())
        }
        Message::Tool { tool_call_id, content, .. } => {
            let result = Block::ToolResult { tool_use_id: sent_id(tool_call_id), content: worded(content) };
            (Role::User, vec![result])
        }
    }
}

/// The text, if there is more in it than white space.
fn worded(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}

fn sent_id(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    portable_id(id, |id| !id.is_empty() && id.chars().all(fits))
}

/// Arguments as the object they must be, even when what a model wrote was none.
fn sent_input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(json!({ "_invalid": other })),
    }
}

#[cfg(test)]
mod tests;
