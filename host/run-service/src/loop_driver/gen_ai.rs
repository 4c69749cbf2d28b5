//! The spans of a run, named as OpenTelemetry's semantic conventions for generative AI say: `invoke_agent`,
//! `chat` for a model call, `execute_tool`. What happens within a span is an event of it: the first words of
//! a streamed reply, a tool's progress.
//!
//! They hold names, numbers and outcomes. What users, models and tools say is in them only where
//! [`trace::captures_content`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use agent_core::ports::{Deltas, ModelError, ModelRequest};
use agent_core::trace::{self, Fields, Kind, Span};
use agent_core::words::{
    AgentResult, Message, ModelReply, Task, ToolCall, ToolOutcome, ToolProgress, ToolReturn, Usage,
};
use serde_json::{Value, json};

use super::error::RunError;

/// The span of a run. `model` is the model's name, `provider/model`.
pub(crate) fn invoke_agent(task: &Task) -> Span {
    Span::begin(Kind::Internal, "invoke_agent", |span| {
        let (provider, model) = split(&task.model);
        span.text("gen_ai.operation.name", "invoke_agent");
        span.text("gen_ai.provider.name", provider);
        span.text("gen_ai.request.model", model);
        span.text("agent.run.id", &*task.id);
    })
}

/// Notes how a run ended.
pub(crate) fn agent_ended(span: &Span, ended: &Result<AgentResult, RunError>) {
    span.record(|span| match ended {
        Ok(result) => {
            span.text("agent.run.stop_reason", result.stop_reason.as_str());
            span.int("agent.run.iterations", u64::from(result.iterations));
            span.text("gen_ai.response.model", split(&result.model).1);
            used(span, result.usage);
        }
        Err(error) => span.failed(drive_error(error)),
    });
}

fn used(span: &mut Fields, usage: Usage) {
    span.int("gen_ai.usage.input_tokens", usage.input_tokens);
    span.int("gen_ai.usage.output_tokens", usage.output_tokens);
    span.int("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
    span.int("gen_ai.usage.cache_creation.input_tokens", usage.kept_tokens);
    span.int("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
}

/// The span of a model call, retries and the second provider included.
pub(crate) fn chat(name: &str, request: &ModelRequest<'_>) -> Span {
    Span::begin(Kind::Client, "chat", |span| {
        let (provider, model) = split(name);
        span.named(format_args!("chat {model}"));
        span.text("gen_ai.operation.name", "chat");
        span.text("gen_ai.provider.name", provider);
        span.text("gen_ai.request.model", model);
        span.int("gen_ai.request.max_tokens", u64::from(request.max_tokens));
        span.double("gen_ai.request.temperature", request.temperature);
        span.text("gen_ai.output.type", request.rules.output.as_ref().map(|_| "json"));
        if trace::captures_content() {
            let messages: Vec<_> = request.messages.iter().map(message).collect();
            span.shown("gen_ai.input.messages", Value::from(messages));
        }
    })
}

/// Notes how a model call ended.
pub(crate) fn chat_ended(span: &Span, ended: &Result<ModelReply, ModelError>) {
    span.record(|span| match ended {
        Ok(reply) => replied(span, reply),
        Err(error) => span.failed(error.kind()),
    });
}

fn replied(span: &mut Fields, reply: &ModelReply) {
    let finish = if reply.tool_calls.is_empty() { reply.finish.as_str() } else { "tool_calls" };
    span.text("gen_ai.response.model", split(&reply.model).1);
    span.list("gen_ai.response.finish_reasons", finish);
    if let Some(usage) = reply.usage {
        used(span, usage);
    }
    if trace::captures_content() {
        let mut output = assistant(&reply.content, &reply.tool_calls);
        output["finish_reason"] = finish.into();
        span.shown("gen_ai.output.messages", json!([output]));
    }
}

/// The span of a tool call.
pub(crate) fn execute_tool(call: &ToolCall) -> Span {
    Span::begin(Kind::Internal, "execute_tool", |span| {
        span.named(format_args!("execute_tool {}", call.name));
        span.text("gen_ai.operation.name", "execute_tool");
        span.text("gen_ai.tool.name", &*call.name);
        span.text("gen_ai.tool.call.id", &*call.id);
        span.text("gen_ai.tool.type", "extension");
        if trace::captures_content() {
            span.shown("gen_ai.tool.call.arguments", &call.arguments);
        }
    })
}

/// Notes how a tool call ended.
pub(crate) fn tool_ended(span: &Span, answer: &ToolReturn) {
    span.record(|span| {
        span.text("agent.tool.component", answer.receipt.component.as_deref());
        if answer.receipt.outcome != ToolOutcome::Ok {
            span.failed(answer.receipt.outcome.as_str());
        }
        if trace::captures_content() {
            span.text("gen_ai.tool.call.result", &*answer.content);
        }
    });
}

/// Notes on the span how far the call has got. The tool's words are content.
pub(crate) fn tool_progressed(span: &Span, progress: &ToolProgress) {
    span.add_event("tool.progress", |event| {
        event.double("agent.tool.progress.fraction", progress.fraction);
        event.text("agent.tool.progress.message", trace::captures_content().then_some(&*progress.message));
    });
}

/// Hands the words of a reply on, and notes on the span how long the first took.
#[derive(Debug)]
pub(super) struct TimedDeltas<'a> {
    inner: &'a dyn Deltas,
    span: &'a Span,
    begun: Instant,
    has_begun: AtomicBool,
}

impl<'a> TimedDeltas<'a> {
    /// For a call that begins now.
    pub(super) fn new(inner: &'a dyn Deltas, span: &'a Span) -> Self {
        Self { inner, span, begun: Instant::now(), has_begun: AtomicBool::new(false) }
    }
}

impl Deltas for TimedDeltas<'_> {
    fn text(&self, text: &str) {
        if self.span.is_recorded() && !self.has_begun.swap(true, Relaxed) {
            let seconds = self.begun.elapsed().as_secs_f64();
            self.span.add_event("gen_ai.first_token", |event| {
                event.double("gen_ai.server.time_to_first_token", seconds);
            });
        }
        self.inner.text(text);
    }

    fn reset(&self) {
        self.inner.reset();
    }
}

/// Provider and model of `provider/model`.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// A message in the form of the conventions.
fn message(message: &Message) -> Value {
    match message {
        Message::System { content } => {
            json!({"role": "system", "parts": [{"type": "text", "content": content}]})
        }
        // Images by name only: exporters and their stores take texts.
        Message::User { content } => {
            json!({"role": "user", "parts": [{"type": "text", "content": content.text()}]})
        }
        Message::Assistant { content, tool_calls } => assistant(content, tool_calls),
        Message::Tool { tool_call_id, content, .. } => {
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": tool_call_id, "response": content}]})
        }
    }
}

fn assistant(content: &str, tool_calls: &[ToolCall]) -> Value {
    let text = (!content.is_empty()).then(|| json!({"type": "text", "content": content}));
    let call = |ToolCall { id, name, arguments }: &ToolCall| json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments});
    let parts: Vec<_> = text.into_iter().chain(tool_calls.iter().map(call)).collect();
    json!({"role": "assistant", "parts": parts})
}

fn drive_error(error: &RunError) -> &'static str {
    match error {
        RunError::Model(error) => error.kind(),
        RunError::Journal(_) => "journal",
        RunError::Driver(_) => "driver",
        RunError::Stopped => "stopped",
        RunError::Parked { .. } => "parked",
        RunError::Stuck { .. } => "stuck",
        RunError::Panicked => "panicked",
    }
}
