//! Anthropic Messages: a conversation as JSON, and a reply from JSON. No I/O.

mod json;
mod stream;

use std::borrow::Cow;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::secret::Secret;
use agent_core::words::{
    ContentPart, Finish, Image, ImageSource, Message, ModelReply, ToolCall, Usage, UserContent,
};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use json_schema::MemoryBudget;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use url::Url;

use super::provider_profile::ProviderProfile;
use super::reply_limits::{cap_tokens, check_calls};
use super::streamed_reply::ReplyAssembler;
use super::tool_call_ids::{CallIds, portable_id, portable_name};
use super::{Prompt, Protocol, ReadReply, RenderedTool, UnreadableReply, output_format};
use crate::connect_error::ConnectError;
use crate::http::auth_header::auth_header;
use json::{Block, MarkedBlock, MarkedTurn, ReplyBlock, Role, Turn};

/// The version of the protocol that is spoken, sent in a header of that name.
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The highest temperature that Anthropic accepts. OpenAI's, and so those of requests, go up to 2.
const HOTTEST: f64 = 1.0;

/// Sent in place of a caller's text that is blank: a block of text may not be, and a conversation must begin
/// with one.
const NO_TEXT: &str = "(no text)";

/// Anthropic Messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anthropic;

impl Protocol for Anthropic {
    fn prefix(&self) -> &'static str {
        "anthropic"
    }

    fn model_names(&self) -> &'static [&'static str] {
        &["claude"]
    }

    fn default_base(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn endpoint_path(&self, base_path: &str) -> String {
        if base_path.ends_with("/v1/messages") {
            base_path.to_owned()
        } else if base_path.ends_with("/v1") {
            format!("{base_path}/messages")
        } else {
            format!("{base_path}/v1/messages")
        }
    }

    fn headers(&self, key: &Secret) -> Result<HeaderMap, ConnectError> {
        Ok(HeaderMap::from_iter([(API_KEY, auth_header("", key)?), VERSION]))
    }

    fn initial_profile(&self, _endpoint: &Url) -> ProviderProfile {
        ProviderProfile { prompt_cache: true, format_beside_tools: true, ..ProviderProfile::OTHER }
    }

    fn render_tool(&self, name: &str, description: &str, input_schema: &Value) -> RenderedTool {
        to_raw_value(&json::Tool { name, description, input_schema })
    }

    fn render_kept_tools(&self, tools: &[&RawValue]) -> serde_json::Result<Option<Box<RawValue>>> {
        let Some((last, others)) = tools.split_last() else { return Ok(None) };
        let mut last: Map<String, Value> = serde_json::from_str(last.get())?;
        last.insert("cache_control".to_owned(), serde_json::to_value(json::CacheControl::Ephemeral)?);
        let last = to_raw_value(&last)?;
        let marked: Vec<&RawValue> = others.iter().copied().chain([&*last]).collect();
        to_raw_value(&marked).map(Some)
    }

    fn render_request(&self, prompt: Prompt<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&request(prompt))
    }

    fn read_reply(&self, body: &[u8], request: &ModelRequest<'_>, model: &str) -> ReadReply {
        reply(body, request, model)
    }

    fn assembler(&self) -> Box<dyn ReplyAssembler> {
        Box::new(stream::Assembler::default())
    }
}

fn request(prompt: Prompt<'_>) -> json::Request<'_> {
    let tool_choice = tool_choice(&prompt);
    // There is no mode for JSON without a schema.
    let schema = prompt.native_format().and_then(|format| format.schema.as_ref());
    let Prompt { model, request, tools, profile, stream } = prompt;
    let mut instructions = instructions(request.messages);
    let told = request.rules.output.as_ref().filter(|_| schema.is_none()).map(output_format::instruction);
    instructions.extend(told.map(|text| Block::Text { text: text.into() }));
    let mut system = marked(instructions);
    let turns = turns(request.messages).into_iter();
    let mut messages: Vec<_> =
        turns.map(|Turn { role, content }| MarkedTurn { role, content: marked(content) }).collect();
    // What the next call of the run begins with is all of this, and that of another run tools and
    // instructions. Without tools there is no next call, and keeping costs more than reading.
    if profile.prompt_cache && tools.is_some() {
        let last = messages.last_mut().and_then(|turn| turn.content.last_mut());
        for block in system.last_mut().into_iter().chain(last) {
            block.cache_control = Some(json::CacheControl::Ephemeral);
        }
    }
    json::Request {
        model,
        max_tokens: profile.tokens(request.max_tokens),
        temperature: profile.temperature.then_some(request.temperature.min(HOTTEST)),
        tools,
        tool_choice,
        output_config: schema
            .map(|schema| json::OutputConfig { format: json::Format::JsonSchema { schema } }),
        stop_sequences: if profile.stop { stops(&request.rules.stop) } else { Vec::new() },
        system,
        messages,
        stream: stream.then_some(true),
    }
}

/// Anthropic refuses white space alone. Whatever is not sent ends a reply all the same, once it is read.
fn stops(stops: &[String]) -> Vec<&str> {
    stops.iter().filter_map(|stop| not_blank(stop)).collect()
}

fn tool_choice<'a>(prompt: &Prompt<'a>) -> Option<json::ToolChoice<'a>> {
    prompt.tools?;
    let one_call = prompt.request.rules.one_call && prompt.profile.one_call;
    let choice = |r#type, name: Option<&'a str>| json::ToolChoice {
        r#type,
        name: name.map(Into::into),
        disable_parallel_tool_use: one_call && r#type != "none",
    };
    Some(match prompt.request.tool_choice {
        ToolChoice::Auto if one_call => choice("auto", None),
        ToolChoice::Auto => return None,
        ToolChoice::None => choice("none", None),
        ToolChoice::Required => choice("any", None),
        ToolChoice::Tool(name) => choice("tool", Some(name)),
    })
}

fn reply(body: &[u8], request: &ModelRequest<'_>, model: &str) -> ReadReply {
    let mut memory = MemoryBudget::default();
    let response: json::Response = memory.read_as(body)?;
    let finish = match response.stop_reason.as_deref() {
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        _ => Finish::Done,
    };
    let blocks = match response.content {
        Some(blocks) => blocks,
        None if finish == Finish::ContentFilter => Vec::new(),
        None => return Err(UnreadableReply::empty("it holds no content")),
    };
    check_calls(blocks.iter().filter(|block| matches!(block, ReplyBlock::ToolUse { .. })).count())?;
    let (mut content, mut tool_calls) = (String::new(), Vec::new());
    let mut ids = CallIds::after(request.messages);
    for block in blocks {
        match block {
            ReplyBlock::Text { text } => content.push_str(&text),
            ReplyBlock::ToolUse { id, name, input } => {
                let id = ids.claim(id);
                tool_calls.push(match input {
                    Value::Object(arguments) => ToolCall::of_object(id, name, arguments),
                    Value::Null => ToolCall::from_text(id, name, String::new(), &mut memory),
                    // Of a stream: what is no JSON.
                    Value::String(text) => ToolCall::from_text(id, name, text, &mut memory),
                    other => ToolCall::from_text(id, name, other.to_string(), &mut memory),
                });
            }
            ReplyBlock::Other => {}
        }
    }
    if content.is_empty() && finish == Finish::ContentFilter {
        content = response.stop_details.and_then(|details| details.explanation).unwrap_or_default();
    }
    Ok(ModelReply {
        content,
        tool_calls,
        usage: response.usage.and_then(usage),
        finish,
        model: model.to_owned(),
    })
}

/// Nothing where the server does not count what it reads: gateways before other protocols write zeros then.
fn usage(counted: json::Usage) -> Option<Usage> {
    let [kept, cached] = [counted.cache_creation_input_tokens, counted.cache_read_input_tokens]
        .map(|tokens| cap_tokens(tokens.unwrap_or_default()));
    let input_tokens = cap_tokens(counted.input_tokens.saturating_add(kept).saturating_add(cached));
    (input_tokens > 0).then(|| Usage {
        input_tokens,
        output_tokens: cap_tokens(counted.output_tokens),
        cached_tokens: cached,
        kept_tokens: kept,
        // Thoughts are not counted apart.
        reasoning_tokens: 0,
    })
}

/// Blocks of which none is kept yet.
fn marked(blocks: Vec<Block<'_>>) -> Vec<MarkedBlock<'_>> {
    blocks.into_iter().map(|block| MarkedBlock { block, cache_control: None }).collect()
}

/// What the model is told about its task, wherever it stands in the conversation.
fn instructions(messages: &[Message]) -> Vec<Block<'_>> {
    let texts = messages.iter().filter_map(|message| match message {
        Message::System { content } => not_blank(content),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    texts.map(text_block).collect()
}

/// The conversation as turns whose roles alternate: consecutive messages of one role, above all the answers
/// to several tool calls, become one turn.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let Some((role, blocks)) = blocks(message) else { continue };
        if turns.is_empty() && role == Role::Assistant && !blocks.is_empty() {
            // The first turn has to be the user's.
            turns.push(Turn { role: Role::User, content: vec![text_block(NO_TEXT)] });
        }
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            // A model may reply with nothing, but a request may not hold an empty turn.
            _ if blocks.is_empty() => {}
            _ => turns.push(Turn { role, content: blocks }),
        }
    }
    turns
}

/// Nothing for what is no turn.
fn blocks(message: &Message) -> Option<(Role, Vec<Block<'_>>)> {
    Some(match message {
        Message::System { .. } => return None,
        Message::User { content } => (Role::User, of_user(content)),
        Message::Assistant { content, tool_calls } => {
            let text = not_blank(content).map(text_block);
            let uses = tool_calls.iter().map(|call| Block::ToolUse {
                id: sent_id(&call.id),
                name: portable_name(&call.name),
                input: sent_input(&call.arguments),
            });
            (Role::Assistant, text.into_iter().chain(uses).collect())
        }
        Message::Tool { tool_call_id, content, .. } => {
            let result =
                Block::ToolResult { tool_use_id: sent_id(tool_call_id), content: not_blank(content) };
            (Role::User, vec![result])
        }
    })
}

/// At least one block.
fn of_user(content: &UserContent) -> Vec<Block<'_>> {
    match content {
        UserContent::Text(text) => vec![text_block(not_blank(text).unwrap_or(NO_TEXT))],
        UserContent::Parts(parts) => parts.iter().filter_map(of_part).collect(),
    }
}

/// Nothing for words that are none.
fn of_part(part: &ContentPart) -> Option<Block<'_>> {
    match part {
        ContentPart::Text { text } => not_blank(text).map(text_block),
        ContentPart::Image(image) => Some(Block::Image { source: source(image) }),
    }
}

fn text_block(text: &str) -> Block<'_> {
    Block::Text { text: text.into() }
}

/// How closely to look is nothing that Anthropic can be told.
fn source(image: &Image) -> json::ImageSource<'_> {
    match image.source() {
        ImageSource::Inline { media_type, data } => json::ImageSource::Base64 { media_type, data },
        ImageSource::Remote(url) => json::ImageSource::Url { url },
    }
}

/// The text, unless it is blank.
fn not_blank(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}

fn sent_id(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    portable_id(id, |id| !id.is_empty() && id.chars().all(fits))
}

/// Arguments as an object, which Anthropic requires, even when what the model wrote was none.
fn sent_input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(json!({ "_invalid": other })),
    }
}

#[cfg(test)]
mod tests;
