//! The response object of OpenAI's Responses API, and a run as the events of one.
//!
//! All fields that the API's clients know are there; what has no meaning here has the value that says so.
//! `truncation` is `auto`, because the oldest turns are left out of a conversation that the token budget has
//! no room for.

use std::collections::BTreeSet;

use agent_core::words::{AgentResult, Event, Options, StopReason, ToolOutcome};
use run_service::layers::RunAnswer;
use run_service::live::Delta;
use serde_json::{Value, json};

use super::head::{Head, now};
use super::items::Items;
use super::responses_request::Echo;
use super::stream::WriteRun;
use super::{completion, models};

/// What a response says besides its output.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    id: String,
    created: u64,
    max_output_tokens: Option<u32>,
    temperature: f64,
    /// Names of the functions that the client carries out.
    functions: BTreeSet<String>,
    /// Whether the client wants JSON for an answer.
    is_formatted: bool,
    echo: Echo,
}

/// How a response ended.
struct End {
    status: &'static str,
    incomplete: Option<&'static str>,
    error: Value,
    usage: Value,
    completed_at: Option<u64>,
}

impl End {
    const NOT_YET: Self = Self {
        status: "in_progress",
        incomplete: None,
        error: Value::Null,
        usage: Value::Null,
        completed_at: None,
    };

    fn of(result: &AgentResult, is_formatted: bool) -> Self {
        let refusal = completion::refusal(result, is_formatted);
        let (status, incomplete) = match refusal {
            Some(_) => ("failed", None),
            None if result.output_value.is_some() => ("completed", None),
            None => status_of(result.stop_reason),
        };
        let completed_at = (status == "completed").then(now);
        let error = refusal.map(|message| json!({ "code": "server_error", "message": message }));
        let error = error.unwrap_or_default();
        Self { status, incomplete, error, usage: usage(result), completed_at }
    }

    fn failed(error: &Value) -> Self {
        let text = |name: &str| error.pointer(&format!("/error/{name}")).and_then(Value::as_str);
        let error = json!({
            "code": text("code").unwrap_or("server_error"), "message": text("message").unwrap_or_default(),
        });
        Self { status: "failed", error, ..Self::NOT_YET }
    }
}

/// The tokens of a whole run.
pub(super) fn usage(result: &AgentResult) -> Value {
    let usage = result.usage;
    json!({
        "input_tokens": usage.input_tokens, "input_tokens_details": {
            "cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.kept_tokens,
        },
        "output_tokens": usage.output_tokens, "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": usage.total(),
    })
}

/// A run that a limit ended is incomplete. The API has two reasons for that, of which tokens are the nearer
/// one.
fn status_of(reason: StopReason) -> (&'static str, Option<&'static str>) {
    match reason {
        // What the client has to carry out ends a response like any other.
        StopReason::Completed | StopReason::EmptyReply | StopReason::ToolCalls => ("completed", None),
        StopReason::MaxTokens | StopReason::TokenBudget | StopReason::MaxIterations => {
            ("incomplete", Some("max_output_tokens"))
        }
        StopReason::InvalidOutput => ("failed", None),
        StopReason::ContentFilter => ("incomplete", Some("content_filter")),
        StopReason::Cancelled => ("cancelled", None),
    }
}

impl Frame {
    pub(super) fn new(head: &Head, options: &Options, echo: Echo) -> Self {
        Self {
            id: head.id.clone(),
            created: head.created,
            max_output_tokens: options.max_tokens,
            temperature: options.temperature.unwrap_or_default(),
            functions: options.functions.iter().map(|function| function.name.clone()).collect(),
            is_formatted: options.rules.output.is_some(),
            echo,
        }
    }

    /// Names the response.
    pub(super) fn response_id(&self) -> String {
        format!("resp_{}", self.id)
    }

    /// Marks the response as not kept: its `store` is false from now on.
    pub(super) fn not_kept(&mut self) {
        self.echo.place.store = false;
    }

    /// The response names no conversation from now on that does not know the run.
    pub(super) fn ended_as(&mut self, answer: &RunAnswer) {
        if answer.is_turn_lost {
            self.echo.place.conversation = None;
        }
    }

    /// The response of a run that has ended.
    pub(super) fn of(&self, result: &AgentResult) -> Value {
        let mut items = self.items();
        items.take(result);
        self.object(items.all(), &End::of(result, self.is_formatted))
    }

    /// The output, of which there is nothing yet.
    fn items(&self) -> Items {
        Items::new(&self.id, self.functions.clone(), self.is_formatted)
    }

    fn object(&self, output: &[Value], end: &End) -> Value {
        let incomplete = end.incomplete.map(|reason| json!({ "reason": reason }));
        let mut object = json!({
            "id": self.response_id(), "object": "response", "created_at": self.created,
            "completed_at": end.completed_at, "status": end.status, "error": end.error,
            "incomplete_details": incomplete, "model": models::AGENT, "output": output, "usage": end.usage,
        });
        let echoed = json!({
            "instructions": self.echo.instructions, "metadata": self.echo.metadata,
            "tools": self.echo.tools, "tool_choice": self.echo.tool_choice,
            "text": { "format": self.echo.format }, "parallel_tool_calls": self.echo.parallel_tool_calls,
            "max_output_tokens": self.max_output_tokens, "temperature": self.temperature,
            "store": self.echo.place.store, "previous_response_id": self.echo.place.previous,
            "conversation": self.echo.place.conversation.as_ref().map(|id| json!({ "id": id })),
        });
        for part in [echoed, same_for_all()] {
            if let (Value::Object(object), Value::Object(part)) = (&mut object, part) {
                object.extend(part);
            }
        }
        object
    }
}

/// What every response says.
fn same_for_all() -> Value {
    json!({
        "background": false, "truncation": "auto",
        "max_tool_calls": null, "reasoning": { "effort": null, "summary": null },
        "top_p": 1.0, "top_logprobs": 0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "service_tier": "default", "safety_identifier": null, "prompt_cache_key": null, "user": null,
    })
}

/// Writes a run as the events of one response: each with its number, from 0 on without a gap.
pub(super) struct ResponseEvents {
    frame: Frame,
    items: Items,
    sequence: u64,
    /// Whether any reply is over.
    has_replied: bool,
    /// How it ended, once its output is whole.
    end: End,
}

impl ResponseEvents {
    pub(super) fn new(frame: Frame) -> Self {
        let items = frame.items();
        Self { frame, items, sequence: 0, has_replied: false, end: End::NOT_YET }
    }

    fn write(&mut self, out: &mut String, kind: &str, mut fields: Value) {
        if let Value::Object(fields) = &mut fields {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        // JSON on one line has no line breaks.
        out.push_str(&format!("event: {kind}\ndata: {fields}\n\n"));
    }

    fn write_items(&mut self, out: &mut String) {
        for (kind, fields) in self.items.events() {
            self.write(out, kind, fields);
        }
    }

    fn response(&self) -> Value {
        self.frame.object(self.items.all(), &self.end)
    }

    fn write_response(&mut self, out: &mut String, kind: &str) {
        let response = self.response();
        self.write(out, kind, json!({ "response": response }));
    }

    /// The last event, and what the Open Responses specification has behind it. OpenAI's own clients end
    /// there as well.
    fn write_end(&mut self, out: &mut String, kind: &str) {
        self.write_response(out, kind);
        out.push_str("data: [DONE]\n\n");
    }
}

impl WriteRun for ResponseEvents {
    fn begin(&mut self, out: &mut String) {
        self.write_response(out, "response.created");
        self.write_response(out, "response.in_progress");
    }

    fn delta(&mut self, out: &mut String, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.items.delta(text),
            Delta::Reset => self.items.reset(),
        }
        self.write_items(out);
    }

    fn event(&mut self, out: &mut String, event: &Event) {
        match event {
            Event::ModelReplied { reply, .. } => {
                self.items.replied(&reply.content, &reply.tool_calls);
                self.has_replied = true;
            }
            Event::ToolReturned { index, answer } => {
                self.items.returned(*index, &answer.content, answer.receipt.outcome == ToolOutcome::Ok);
            }
            Event::Started { .. }
            | Event::ToolsStarted { .. }
            | Event::NestedStarted { .. }
            | Event::NestedReturned { .. }
            | Event::Waiting { .. }
            | Event::Decided { .. }
            | Event::Cancelled
            | Event::TakenUp { .. }
            | Event::HandedBack => {}
        }
        self.write_items(out);
    }

    fn conclude(&mut self, out: &mut String, answer: &RunAnswer) -> Option<Value> {
        self.frame.ended_as(answer);
        let result = &answer.result;
        if self.has_replied {
            self.items.end(result);
        } else {
            // One that was kept has no events.
            self.items.take(result);
        }
        self.write_items(out);
        self.end = End::of(result, self.frame.is_formatted);
        Some(self.response())
    }

    fn ended(&mut self, out: &mut String, _answer: &RunAnswer) {
        let kind = match self.end.status {
            "completed" => "response.completed",
            "failed" => "response.failed",
            // The API has no event for a response that was cancelled.
            _ => "response.incomplete",
        };
        self.write_end(out, kind);
    }

    fn not_kept(&mut self) {
        self.frame.not_kept();
    }

    fn failed(&mut self, out: &mut String, error: &Value) {
        self.items.break_off();
        self.write_items(out);
        self.end = End::failed(error);
        self.write_end(out, "response.failed");
    }
}
