//! OpenAI chat completions: a conversation as JSON, and a reply from JSON. No I/O.

mod wire;

use std::borrow::Cow;

use agent_core::ports::ModelRequest;
use agent_core::words::{Finish, Message, ModelReply, ToolCall, Usage};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use url::Url;

use crate::bounds;
use crate::identifiers::{CallIds, LONGEST_ID, portable_id, portable_name};
use crate::provider::{Prompt, Unreadable};
use crate::shape::Shape;

/// True for OpenAI itself, its regional addresses included, and false for all who speak its protocol.
pub(crate) fn is_own_address(endpoint: &Url) -> bool {
    let host = endpoint.host_str().unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

/// An entry of `tools`.
pub(crate) fn render_tool(
    name: &str,
    description: &str,
    parameters: &Value,
) -> serde_json::Result<Box<RawValue>> {
    let function = wire::FunctionSpec { name, description, parameters };
    to_raw_value(&wire::Tool { r#type: "function", function })
}

/// The body of a request.
pub(crate) fn render(prompt: Prompt<'_>) -> wire::Request<'_> {
    let tool_choice = prompt.forbids_calls().then_some("none");
    let Prompt { model, request, tools, shape } = prompt;
    let max_tokens = Some(shape.tokens(request.max_tokens));
    wire::Request {
        model,
        messages: request.messages.iter().map(|said| message(said, shape)).collect(),
        tools,
        tool_choice,
        max_tokens: max_tokens.filter(|_| !shape.completion_tokens),
        max_completion_tokens: max_tokens.filter(|_| shape.completion_tokens),
        temperature: shape.temperature.then_some(request.temperature),
    }
}

/// The reply in the body of a successful response.
pub(crate) fn read(body: &[u8], request: &ModelRequest<'_>, who: &str) -> Result<ModelReply, Unreadable> {
    let response: wire::Response = serde_json::from_slice(body)?;
    let choice = response.choices.into_iter().flatten().next();
    let choice = choice.ok_or_else(|| Unreadable::empty("it names no choice"))?;
    let finish = finish(choice.finish_reason.as_deref().unwrap_or_default());
    let said = match choice.message {
        Some(said) => said,
        None if finish == Finish::ContentFilter => wire::Said::default(),
        None => return Err(Unreadable::empty("its choice holds no message")),
    };
    let (content, refused) = said.content.map(text).unwrap_or_default();
    let refusal = said.refusal.or(refused).filter(|refusal| content.is_empty() && !refusal.is_empty());
    let mut asked = said.tool_calls.unwrap_or_default();
    if let (true, Some(function)) = (asked.is_empty(), said.function_call) {
        asked.push(wire::Asked { id: None, function });
    }
    if choice.finish_reason.as_deref() == Some("error") && content.is_empty() && asked.is_empty() {
        return Err(Unreadable::empty("its choice ended with an error"));
    }
    bounds::calls(asked.len())?;
    let mut ids = CallIds::after(request.messages);
    let tool_calls = asked.into_iter().map(|asked| {
        let id = ids.claim(asked.id);
        let wire::AskedFunction { name, arguments } = asked.function;
        match arguments.unwrap_or_default() {
            arguments @ Value::Object(_) => ToolCall { id, name, arguments },
            Value::String(text) => ToolCall::from_text(id, name, text),
            Value::Null => ToolCall::from_text(id, name, String::new()),
            other => ToolCall::from_text(id, name, other.to_string()),
        }
    });
    Ok(ModelReply {
        tool_calls: tool_calls.collect(),
        finish: if refusal.is_some() { Finish::ContentFilter } else { finish },
        content: refusal.unwrap_or(content),
        usage: response.usage.map(|usage| Usage {
            input_tokens: bounds::tokens(usage.prompt_tokens),
            output_tokens: bounds::tokens(usage.completion_tokens),
        }),
        model: who.to_owned(),
    })
}

/// Why it stopped, in the words of OpenAI and of those who have words of their own (Mistral, Gemini).
fn finish(reason: &str) -> Finish {
    match reason.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "refusal" | "safety" | "recitation" | "blocklist" | "prohibited_content"
        | "spii" => Finish::ContentFilter,
        filtered if filtered.starts_with("content_filter") => Finish::ContentFilter,
        _ => Finish::Done,
    }
}

fn message(message: &Message, shape: Shape) -> wire::Message<'_> {
    match message {
        Message::User { content } => wire::Message::User { content },
        Message::Assistant { content, tool_calls } => wire::Message::Assistant {
            content: Some(content.as_str()).filter(|text| tool_calls.is_empty() || !text.is_empty()),
            tool_calls: tool_calls.iter().map(|call| tool_call(call, shape)).collect(),
        },
        Message::Tool { tool_call_id, content, .. } => {
            wire::Message::Tool { tool_call_id: sent_id(tool_call_id, shape), content }
        }
    }
}

fn tool_call(call: &ToolCall, shape: Shape) -> wire::ToolCall<'_> {
    let (name, arguments) = (portable_name(&call.name), arguments_text(&call.arguments));
    let function = wire::Function { name, arguments };
    wire::ToolCall { id: sent_id(&call.id, shape), r#type: "function", function }
}

fn sent_id(id: &str, shape: Shape) -> Cow<'_, str> {
    portable_id(id, |id| !shape.short_ids || id.len() <= LONGEST_ID)
}

/// Arguments as the text they travel as. Those that were no JSON object are such a text already: the model
/// sees again what it wrote, and beside it the error it got for that.
fn arguments_text(arguments: &Value) -> Cow<'_, str> {
    match arguments {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// The text, and beside it the words of a refusal, if it is in parts and one of them is that.
fn text(content: wire::Content) -> (String, Option<String>) {
    match content {
        wire::Content::Text(text) => (text, None),
        wire::Content::Parts(parts) => {
            let refusal = parts.iter().find_map(|part| part.refusal.clone());
            (parts.into_iter().filter_map(|part| part.text).collect(), refusal)
        }
    }
}

#[cfg(test)]
mod tests;
