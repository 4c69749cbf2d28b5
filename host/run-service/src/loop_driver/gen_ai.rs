//! The spans of a run, named as OpenTelemetry's semantic conventions for generative AI say: `invoke_agent`,
//! `chat` for a model call, `execute_tool`. They are of level `debug`, so that they cost nothing unless
//! traces are recorded.
//!
//! What happens within a span is an event of it: the first words of a streamed reply, a tool's progress. Only
//! traces have these, not the log (the field `otel.event`).
//!
//! They hold names, numbers and outcomes. What users, models and tools say is in them only where
//! [`trace::captures_content`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use agent_core::ports::{Deltas, ModelError, ModelRequest};
use agent_core::trace;
use agent_core::words::{
    AgentResult, Message, ModelReply, Task, ToolCall, ToolOutcome, ToolProgress, ToolReturn,
};
use serde_json::{Value, json};
use tracing::field::{Empty, display};
use tracing::{Span, debug, debug_span, record_all};

use super::error::RunError;

/// The span of a run. `model` is the model's name, `provider/model`.
pub(crate) fn invoke_agent(task: &Task) -> Span {
    let (provider, model) = split(&task.model);
    debug_span!(
        "invoke_agent",
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        agent.run.id = task.id,
        agent.run.stop_reason = Empty,
        agent.run.iterations = Empty,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        "error.type" = Empty,
    )
}

/// Notes how a run ended.
pub(crate) fn agent_ended(span: &Span, ended: &Result<AgentResult, RunError>) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(result) => {
            record_all!(
                span,
                agent.run.stop_reason = result.stop_reason.as_str(),
                agent.run.iterations = result.iterations,
                gen_ai.response.model = split(&result.model).1,
                gen_ai.usage.input_tokens = result.usage.input_tokens,
                gen_ai.usage.output_tokens = result.usage.output_tokens,
                gen_ai.usage.cache_read.input_tokens = result.usage.cached_tokens,
                gen_ai.usage.cache_creation.input_tokens = result.usage.kept_tokens,
                gen_ai.usage.reasoning.output_tokens = result.usage.reasoning_tokens,
            );
        }
        Err(error) => {
            span.record("error.type", drive_error(error));
        }
    }
}

/// The span of a model call, retries and the second provider included.
pub(crate) fn chat(name: &str, request: &ModelRequest<'_>) -> Span {
    let (provider, model) = split(name);
    let span = debug_span!(
        "chat",
        otel.name = %format_args!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.request.max_tokens = request.max_tokens,
        gen_ai.request.temperature = request.temperature,
        gen_ai.output.type = request.rules.output.as_ref().map(|_| "json"),
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        "error.type" = Empty,
    );
    if !span.is_disabled() && trace::captures_content() {
        let messages: Vec<_> = request.messages.iter().map(message).collect();
        span.record("gen_ai.input.messages", display(Value::from(messages)));
    }
    span
}

/// Notes how a model call ended.
pub(crate) fn chat_ended(span: &Span, ended: &Result<ModelReply, ModelError>) {
    if span.is_disabled() {
        return;
    }
    let reply = match ended {
        Ok(reply) => reply,
        Err(error) => {
            span.record("error.type", error.kind());
            return;
        }
    };
    let finish = if reply.tool_calls.is_empty() { reply.finish.as_str() } else { "tool_calls" };
    record_all!(
        span,
        gen_ai.response.model = split(&reply.model).1,
        gen_ai.response.finish_reasons = finish,
        gen_ai.usage.input_tokens = reply.usage.map(|usage| usage.input_tokens),
        gen_ai.usage.output_tokens = reply.usage.map(|usage| usage.output_tokens),
        gen_ai.usage.cache_read.input_tokens = reply.usage.map(|usage| usage.cached_tokens),
        gen_ai.usage.cache_creation.input_tokens = reply.usage.map(|usage| usage.kept_tokens),
        gen_ai.usage.reasoning.output_tokens = reply.usage.map(|usage| usage.reasoning_tokens),
    );
    if trace::captures_content() {
        let mut output = assistant(&reply.content, &reply.tool_calls);
        output["finish_reason"] = finish.into();
        span.record("gen_ai.output.messages", display(json!([output])));
    }
}

/// The span of a tool call.
pub(crate) fn execute_tool(call: &ToolCall) -> Span {
    let span = debug_span!(
        "execute_tool",
        otel.name = %format_args!("execute_tool {}", call.name),
        otel.kind = "internal",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.call.id = call.id,
        "gen_ai.tool.type" = "extension",
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        agent.tool.component = Empty,
        "error.type" = Empty,
    );
    if !span.is_disabled() && trace::captures_content() {
        span.record("gen_ai.tool.call.arguments", display(&call.arguments));
    }
    span
}

/// Notes how a tool call ended.
pub(crate) fn tool_ended(span: &Span, answer: &ToolReturn) {
    if span.is_disabled() {
        return;
    }
    if let Some(component) = &answer.receipt.component {
        span.record("agent.tool.component", component.as_str());
    }
    if answer.receipt.outcome != ToolOutcome::Ok {
        span.record("error.type", answer.receipt.outcome.as_str());
    }
    if trace::captures_content() {
        span.record("gen_ai.tool.call.result", answer.content.as_str());
    }
}

/// Notes on the span how far the call has got. The tool's words are content.
pub(crate) fn tool_progressed(span: &Span, progress: &ToolProgress) {
    if span.is_disabled() {
        return;
    }
    let message = trace::captures_content().then_some(&*progress.message);
    debug!(
        parent: span,
        otel.event = "tool.progress",
        agent.tool.progress.fraction = progress.fraction,
        agent.tool.progress.message = message,
    );
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
        if !self.span.is_disabled() && !self.has_begun.swap(true, Relaxed) {
            let seconds = self.begun.elapsed().as_secs_f64();
            debug!(
                parent: self.span,
                otel.event = "gen_ai.first_token",
                gen_ai.server.time_to_first_token = seconds,
            );
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
