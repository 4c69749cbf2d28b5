//! OpenAI chat completions: a conversation as JSON, and a reply from JSON. No I/O.

mod json;
mod stream;

use std::borrow::Cow;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::secret::Secret;
use agent_core::words::{
    ContentPart, Finish, ImageDetail, Message, ModelReply, OutputFormat, ToolCall, Usage, UserContent,
};
use http::header::{AUTHORIZATION, HeaderMap};
use json_schema::MemoryBudget;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::provider_profile::{ProviderProfile, Thoughts};
use super::reply_limits::{cap_tokens, check_calls};
use super::streamed_reply::ReplyAssembler;
use super::tool_call_ids::{CallIds, LONGEST_ID, nine_characters, portable_id, portable_name};
use super::{Prompt, Protocol, ReadReply, RenderedTool, UnreadableReply, output_format};
use crate::connect_error::ConnectError;
use crate::http::auth_header::auth_header;

/// What stands in place of thoughts that are not kept. DeepSeek and Moonshot refuse an empty text.
const NO_THOUGHTS: &str = " ";

/// Google's own name for a signature that is not to be checked, for calls that Gemini did not make itself
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// OpenAI chat completions: OpenAI itself and all the servers that imitate it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenAi;

impl Protocol for OpenAi {
    fn prefix(&self) -> &'static str {
        "openai"
    }

    fn model_names(&self) -> &'static [&'static str] {
        &["gpt", "o1", "o3", "o4", "chatgpt"]
    }

    fn default_base(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn endpoint_path(&self, base_path: &str) -> String {
        if base_path.ends_with("/chat/completions") {
            base_path.to_owned()
        } else if base_path.is_empty() {
            "/v1/chat/completions".to_owned()
        } else {
            format!("{base_path}/chat/completions")
        }
    }

    fn headers(&self, key: &Secret) -> Result<HeaderMap, ConnectError> {
        Ok(HeaderMap::from_iter([(AUTHORIZATION, auth_header("Bearer ", key)?)]))
    }

    fn initial_profile(&self, endpoint: &Url) -> ProviderProfile {
        if is_own_address(endpoint) { ProviderProfile::OPENAI } else { ProviderProfile::OTHER }
    }

    fn render_tool(&self, name: &str, description: &str, parameters: &Value) -> RenderedTool {
        let function = json::FunctionSpec { name, description, parameters };
        to_raw_value(&json::Tool { r#type: "function", function })
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

/// Whether this is OpenAI itself, its regional addresses included, and not a server that imitates it.
fn is_own_address(endpoint: &Url) -> bool {
    let host = endpoint.host_str().unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

fn request(prompt: Prompt<'_>) -> json::Request<'_> {
    let (tool_choice, format) = (tool_choice(&prompt), prompt.native_format());
    let Prompt { model, request, tools, profile, stream } = prompt;
    let max_tokens = Some(profile.tokens(request.max_tokens));
    json::Request {
        model,
        messages: messages(request, profile, format.is_some_and(|format| format.schema.is_some())),
        tools,
        tool_choice,
        parallel_tool_calls: (request.rules.one_call && profile.one_call && tools.is_some()).then_some(false),
        response_format: format.map(response_format),
        stop: if profile.stop { &request.rules.stop } else { &[] },
        max_tokens: max_tokens.filter(|_| !profile.completion_tokens),
        max_completion_tokens: max_tokens.filter(|_| profile.completion_tokens),
        temperature: profile.temperature.then_some(request.temperature),
        reasoning_effort: (tools.is_some() && !profile.reasons_beside_tools).then_some("none"),
        stream: stream.then_some(true),
        // Without it the stream does not say what it cost.
        stream_options: stream.then_some(json::StreamOptions { include_usage: true }),
        prompt_cache_key: profile.prompt_cache.then(|| cache_key(request)),
    }
}

fn tool_choice<'a>(prompt: &Prompt<'a>) -> Option<json::ToolChoice<'a>> {
    prompt.tools?;
    Some(match prompt.request.tool_choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json::ToolChoice::Word("none"),
        ToolChoice::Required => json::ToolChoice::Word("required"),
        ToolChoice::Tool(name) => {
            json::ToolChoice::Function { r#type: "function", function: json::Named { name: name.into() } }
        }
    })
}

fn response_format(format: &OutputFormat) -> json::ResponseFormat<'_> {
    match &format.schema {
        None => json::ResponseFormat::JsonObject,
        Some(schema) => {
            let (name, strict) = (format.name.as_str(), output_format::is_strict(schema));
            json::ResponseFormat::JsonSchema { json_schema: json::JsonSchema { name, schema, strict } }
        }
    }
}

/// The conversation. Its instructions are one message: templates of many models (Qwen, Gemma, Mistral) refuse
/// a second one. What the model has to be told about the format is their end; the mode for any JSON object
/// wants to see the word as well.
fn messages<'a>(
    request: &ModelRequest<'a>,
    profile: ProviderProfile,
    knows_schema: bool,
) -> Vec<json::Message<'a>> {
    let mut messages: Vec<json::Message<'a>> = Vec::with_capacity(request.messages.len());
    for one in request.messages {
        if let (Message::System { content: more }, Some(json::Message::System { content })) =
            (one, messages.last_mut())
        {
            content.to_mut().push_str(&format!("\n\n{more}"));
        } else {
            messages.push(message(one, profile));
        }
    }
    if let Some(format) = request.rules.output.as_ref().filter(|_| !knows_schema) {
        let told = output_format::instruction(format);
        match messages.iter_mut().rfind(|one| matches!(one, json::Message::System { .. })) {
            Some(json::Message::System { content }) => content.to_mut().push_str(&format!("\n\n{told}")),
            _ => messages.insert(0, json::Message::System { content: told.into() }),
        }
    }
    messages
}

/// Equal for requests that begin alike: with the same instructions and the same tools.
fn cache_key(request: &ModelRequest<'_>) -> String {
    let mut digest = Sha256::new();
    digest.update(request.tools.digest());
    for message in request.messages {
        if let Message::System { content } = message {
            digest.update(content);
        }
    }
    format!("agent-host-{:.32x}", digest.finalize())
}

fn reply(body: &[u8], request: &ModelRequest<'_>, model: &str) -> ReadReply {
    let mut memory = MemoryBudget::default();
    let response: json::Response = memory.read_as(body)?;
    let usage = response.usage.and_then(usage);
    let choice = match response.choices.into_iter().flatten().next() {
        Some(choice) => choice,
        // Nothing, and it costs something: as an empty message it is on the bill, and the run asks again.
        None if response.error.is_none() && usage.is_some_and(|usage| usage.total() > 0) => {
            json::Choice { message: Some(json::ReplyMessage::default()), ..json::Choice::default() }
        }
        None => return Err(UnreadableReply::empty("it names no choice")),
    };
    let finish = finish(choice.finish_reason.as_deref().unwrap_or_default());
    let message = match choice.message {
        Some(message) => message,
        None if finish == Finish::ContentFilter => json::ReplyMessage::default(),
        None => return Err(UnreadableReply::empty("its choice holds no message")),
    };
    let (content, refused) = message.content.map(text).unwrap_or_default();
    let refusal = message.refusal.or(refused).filter(|refusal| content.is_empty() && !refusal.is_empty());
    let mut calls = message.tool_calls.unwrap_or_default();
    if let (true, Some(function)) = (calls.is_empty(), message.function_call) {
        calls.push(json::ReplyCall { id: None, function });
    }
    if choice.finish_reason.as_deref() == Some("error") && content.is_empty() && calls.is_empty() {
        return Err(UnreadableReply::empty("its choice ended with an error"));
    }
    check_calls(calls.len())?;
    let mut ids = CallIds::after(request.messages);
    let tool_calls = calls.into_iter().map(|call| {
        let id = ids.claim(call.id);
        let json::ReplyFunction { name, arguments } = call.function;
        match arguments.unwrap_or_default() {
            Value::Object(arguments) => ToolCall::of_object(id, name, arguments),
            Value::String(text) => ToolCall::from_text(id, name, text, &mut memory),
            Value::Null => ToolCall::from_text(id, name, String::new(), &mut memory),
            other => ToolCall::from_text(id, name, other.to_string(), &mut memory),
        }
    });
    Ok(ModelReply {
        tool_calls: tool_calls.collect(),
        finish: if refusal.is_some() { Finish::ContentFilter } else { finish },
        content: refusal.unwrap_or(content),
        usage,
        model: model.to_owned(),
    })
}

/// Nothing where the server does not count: some write zeros then, with which a run would never come to the
/// end of its budget.
fn usage(counted: json::Usage) -> Option<Usage> {
    let input_tokens = cap_tokens(counted.prompt_tokens.filter(|tokens| *tokens > 0)?);
    let output_tokens = cap_tokens(counted.completion_tokens.unwrap_or_default());
    let cached = counted.prompt_tokens_details.and_then(|details| details.cached_tokens);
    let reasoning = counted.completion_tokens_details.and_then(|details| details.reasoning_tokens);
    Some(Usage {
        input_tokens,
        output_tokens,
        // Parts are no more than what they are parts of.
        cached_tokens: cached.unwrap_or_default().min(input_tokens),
        // What is kept is not said.
        kept_tokens: 0,
        reasoning_tokens: reasoning.unwrap_or_default().min(output_tokens),
    })
}

/// Why the model stopped: OpenAI's reasons, and those of servers with their own (Mistral, Gemini).
fn finish(reason: &str) -> Finish {
    match reason.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "refusal" | "safety" | "recitation" | "blocklist" | "prohibited_content"
        | "spii" => Finish::ContentFilter,
        filtered if filtered.starts_with("content_filter") => Finish::ContentFilter,
        _ => Finish::Done,
    }
}

fn message(message: &Message, profile: ProviderProfile) -> json::Message<'_> {
    match message {
        Message::System { content } => json::Message::System { content: content.into() },
        Message::User { content } => json::Message::User { content: user_content(content) },
        Message::Assistant { content, tool_calls } => json::Message::Assistant {
            content: Some(content.as_str()).filter(|text| tool_calls.is_empty() || !text.is_empty()),
            reasoning_content: (profile.thoughts == Some(Thoughts::Text)).then_some(NO_THOUGHTS),
            tool_calls: calls(tool_calls, profile),
        },
        Message::Tool { tool_call_id, content, .. } => {
            json::Message::Tool { tool_call_id: sent_id(tool_call_id, profile), content }
        }
    }
}

fn user_content(content: &UserContent) -> json::UserContent<'_> {
    match content {
        UserContent::Text(text) => json::UserContent::Text(text),
        UserContent::Parts(parts) => json::UserContent::Parts(parts.iter().filter_map(user_part).collect()),
    }
}

/// Nothing for words that are none.
fn user_part(part: &ContentPart) -> Option<json::UserPart<'_>> {
    match part {
        ContentPart::Text { text } => (!text.is_empty()).then_some(json::UserPart::Text { text }),
        ContentPart::Image(image) => {
            let image_url =
                json::ImageUrl { url: image.url(), detail: image.detail().map(ImageDetail::as_str) };
            Some(json::UserPart::ImageUrl { image_url })
        }
    }
}

/// The calls of one message. Gemini signs the first one for all of them.
fn calls(calls: &[ToolCall], profile: ProviderProfile) -> Vec<json::ToolCall<'_>> {
    let mut calls: Vec<_> = calls.iter().map(|call| tool_call(call, profile)).collect();
    if let (Some(first), Some(Thoughts::Signature)) = (calls.first_mut(), profile.thoughts) {
        first.extra_content = Some(json!({ "google": { "thought_signature": NO_SIGNATURE } }));
    }
    calls
}

fn tool_call(call: &ToolCall, profile: ProviderProfile) -> json::ToolCall<'_> {
    let (name, arguments) = (portable_name(&call.name), arguments_text(&call.arguments));
    let function = json::Function { name, arguments };
    json::ToolCall { id: sent_id(&call.id, profile), r#type: "function", function, extra_content: None }
}

fn sent_id(id: &str, profile: ProviderProfile) -> Cow<'_, str> {
    if profile.nine_character_ids {
        return nine_characters(id);
    }
    portable_id(id, |id| !profile.short_ids || id.len() <= LONGEST_ID)
}

/// Arguments as the text of a JSON object. What the model wrote and was none it is shown again within one,
/// beside the error that followed: vLLM and Ollama refuse a conversation with anything else.
fn arguments_text(arguments: &Value) -> Cow<'_, str> {
    match arguments {
        Value::Object(_) => Cow::Owned(arguments.to_string()),
        // One that is too large to be kept as a value.
        Value::String(text) if is_object(text) => Cow::Borrowed(text),
        other => Cow::Owned(json!({ "_invalid": other }).to_string()),
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The text, and the text of a refusal if one of the parts is that.
fn text(content: json::Content) -> (String, Option<String>) {
    match content {
        json::Content::Text(text) => (text, None),
        json::Content::Parts(parts) => {
            let refusal = parts.iter().find_map(|part| part.refusal.clone());
            (parts.into_iter().filter_map(|part| part.text).collect(), refusal)
        }
    }
}

#[cfg(test)]
mod tests;
