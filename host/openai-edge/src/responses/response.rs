//! The response object of OpenAI's Responses API, and a run as the events of one.
//!
//! All fields that the API's clients know are there; what has no meaning here has the value that says so.
//! `truncation` is `auto`, because the oldest turns are left out of a conversation that the token budget has
//! no room for.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::{AgentResult, Event, FailureKind, Finish, Options, StopReason, ToolOutcome, Usage};
use http::StatusCode;
use run_service::jobs::failure_kind;
use run_service::layers::RunAnswer;
use run_service::live::Delta;
use serde_json::{Value, json};

use super::super::head::{Head, now};
use super::super::input::allowed_tools;
use super::super::items::Items;
use super::super::models;
use super::super::run::final_words::refusal;
use super::super::run::paused::Paused;
use super::super::run::stream::WriteRun;
use super::request::Echo;
use http_edge::variant_b::error::openai_problem as problem;

/// What a response says besides its output.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    id: String,
    created: u64,
    max_output_tokens: Option<u32>,
    temperature: f64,
    /// Names of the functions that the client carries out.
    functions: BTreeSet<String>,
    /// Whether the client wants JSON for an answer.
    is_formatted: bool,
    echo: Echo,
    /// The response as it was kept, whose fields hold but for those of its end.
    kept: Option<Value>,
}

/// The fields that depend on how far a response is.
const OF_END: [&str; 6] = ["completed_at", "status", "error", "incomplete_details", "output", "usage"];

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

    const QUEUED: Self = Self { status: "queued", ..Self::NOT_YET };
    const CANCELLED: Self = Self { status: "cancelled", ..Self::NOT_YET };

    fn of(result: &AgentResult, is_formatted: bool, usage: Usage) -> Self {
        let refusal = refusal(result, is_formatted);
        let (status, incomplete) = match refusal {
            Some(_) => ("failed", None),
            None if result.output_value.is_some() => ("completed", None),
            None => status_of(result.stop_reason),
        };
        let completed_at = (status == "completed").then(now);
        let error = refusal.map(|message| json!({ "code": "server_error", "message": message }));
        let error = error.unwrap_or_default();
        Self { status, incomplete, error, usage: usage_of(usage), completed_at }
    }

    fn failed(error: &Value) -> Self {
        let text = |name: &str| error.pointer(&format!("/error/{name}")).and_then(Value::as_str);
        let error = json!({
            "code": text("code").unwrap_or("server_error"), "message": text("message").unwrap_or_default(),
        });
        Self { status: "failed", error, ..Self::NOT_YET }
    }
}

/// Tokens as a response has them.
pub(crate) fn usage_of(usage: Usage) -> Value {
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
    pub(crate) fn new(head: &Head, options: &Options, echo: Echo) -> Self {
        Self {
            id: head.id.clone(),
            created: head.created,
            max_output_tokens: options.max_tokens,
            temperature: options.temperature.unwrap_or_default(),
            functions: options.functions.iter().map(|function| function.name.clone()).collect(),
            is_formatted: options.rules.output.is_some(),
            echo,
            kept: None,
        }
    }

    /// What a kept response says besides its output.
    pub(crate) fn of_kept(shown: Value) -> Self {
        let id = shown.get("id").and_then(Value::as_str).unwrap_or_default();
        Self {
            id: id.trim_start_matches("resp_").to_owned(),
            created: 0,
            max_output_tokens: None,
            temperature: 0.0,
            functions: allowed_tools::functions_of(&shown),
            is_formatted: shown.pointer("/text/format/type").is_some_and(|kind| *kind != "text"),
            echo: Echo::default(),
            kept: Some(shown),
        }
    }

    /// The response while it waits for somebody to work on it, in the background.
    pub(crate) fn queued(&self) -> Value {
        let mut response = self.object(&[], &End::QUEUED);
        response["background"] = true.into();
        response
    }

    /// The response while somebody works on it.
    pub(crate) fn in_progress(&self) -> Value {
        self.object(&[], &End::NOT_YET)
    }

    /// The response of a run that was cancelled.
    pub(crate) fn cancelled(&self) -> Value {
        self.object(&[], &End::CANCELLED)
    }

    /// The response of a run that failed, with a text for its client, and the code that a stream of it ends
    /// with.
    pub(crate) fn failed(&self, why: &str) -> Value {
        let status = match failure_kind(why) {
            FailureKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        self.object(&[], &End::failed(&problem::body(status, why, None, problem::code_of(status))))
    }

    /// When a kept response was completed, if it was: it may be streamed long after that.
    fn completed_at(&self) -> Option<u64> {
        self.kept.as_ref()?.get("completed_at")?.as_u64()
    }

    /// Names the response.
    pub(crate) fn response_id(&self) -> String {
        format!("resp_{}", self.id)
    }

    /// Marks the response as not kept: its `store` is false from now on.
    pub(crate) fn not_kept(&mut self) {
        self.echo.place.store = false;
    }

    /// The response names no conversation from now on that does not know the run.
    pub(crate) fn ended_as(&mut self, answer: &RunAnswer) {
        if answer.is_turn_lost {
            self.echo.place.conversation = None;
        }
    }

    /// The response of a run that has ended.
    pub(crate) fn of(&self, result: &AgentResult) -> Value {
        let mut items = self.items();
        items.take(result);
        self.object(items.all(), &End::of(result, self.is_formatted, result.usage))
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
        if let (Value::Object(object), Some(Value::Object(kept))) = (&mut object, &self.kept) {
            let kept = kept.iter().filter(|(name, _)| !OF_END.contains(&name.as_str()));
            object.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
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
pub(crate) struct ResponseEvents {
    frame: Frame,
    items: Items,
    sequence: u64,
    /// Whether any reply is over.
    has_replied: bool,
    /// What the run had used before what is written here.
    used_before: Usage,
    /// How it ended, once its output is whole.
    end: End,
    /// Whether it is made of the run's journal alone, as that of a response in the background.
    is_background: bool,
    /// The last event that the reader has: none up to it is written.
    after: Option<u64>,
}

impl ResponseEvents {
    pub(crate) fn new(frame: Frame) -> Self {
        let items = frame.items();
        Self {
            frame,
            items,
            sequence: 0,
            has_replied: false,
            used_before: Usage::default(),
            end: End::NOT_YET,
            is_background: false,
            after: None,
        }
    }

    /// The rest of a run behind `shown`, what another response has shown of it and used until then.
    pub(crate) fn behind(
        frame: Frame,
        shown: &[Event],
        used_before: Usage,
        approved: BTreeMap<usize, String>,
    ) -> Self {
        let mut rest = Self { used_before, ..Self::new(frame) };
        let mut nobody_reads_it = String::new();
        shown.iter().for_each(|event| rest.event(&mut nobody_reads_it, event));
        rest.items.shown_before(approved);
        rest.sequence = 0;
        rest
    }

    /// Those of a response in the background, behind the event number `after`.
    pub(crate) fn in_background(frame: Frame, after: Option<u64>) -> Self {
        Self { is_background: true, after, ..Self::new(frame) }
    }

    fn write(&mut self, out: &mut String, kind: &str, mut fields: Value) {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.sequence.into();
        let is_new = self.after.is_none_or(|after| self.sequence > after);
        self.sequence += 1;
        if !is_new {
            return;
        }
        // JSON on one line has no line breaks.
        out.push_str(&format!("event: {kind}\ndata: {fields}\n\n"));
    }

    fn write_items(&mut self, out: &mut String) {
        for (kind, fields) in self.items.events() {
            self.write(out, kind, fields);
        }
    }

    /// The response as it stands.
    pub(crate) fn response(&self) -> Value {
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
        if self.is_background {
            self.end = End::QUEUED;
            self.write_response(out, "response.created");
            self.write_response(out, "response.queued");
            self.end = End::NOT_YET;
        } else {
            self.write_response(out, "response.created");
        }
        self.write_response(out, "response.in_progress");
    }

    fn delta(&mut self, out: &mut String, delta: &Delta) {
        // The journal has replies as a whole: who reads a part of one could not go on behind it.
        if self.is_background {
            return;
        }
        match delta {
            Delta::Text(text) => self.items.delta(text),
            Delta::Reset => self.items.reset(),
        }
        self.write_items(out);
    }

    fn event(&mut self, out: &mut String, event: &Event) {
        match event {
            Event::ModelReplied { reply, last_by, .. } => {
                self.items.replied(&reply.content, &reply.tool_calls);
                // The last reply that the run could have, and one that was cut off, end it without calls.
                if reply.finish != Finish::Done || last_by.is_some() {
                    self.items.leave_out_functions();
                }
                self.has_replied = true;
            }
            Event::ToolReturned { index, answer } => {
                self.items.returned(*index, &answer.content, answer.receipt.outcome == ToolOutcome::Ok);
            }
            Event::ToolsStarted { indexes } => {
                indexes.iter().for_each(|index| self.items.started(*index));
            }
            Event::RecordingStarted { index, .. } => self.items.started(*index),
            // In the background no client is asked. A call that waits stands where it stands in the response
            // that is read at the end, so that both name it alike.
            Event::Waiting { waits, .. } if !(waits.is_empty() || self.is_background) => self.items.waits(),
            Event::Started { .. }
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
        let used = result.usage.since(self.used_before);
        self.end = End::of(result, self.frame.is_formatted, used);
        self.end.completed_at = self.end.completed_at.map(|now| self.frame.completed_at().unwrap_or(now));
        Some(self.response())
    }

    fn settle(&mut self, out: &mut String) {
        self.items.settle();
        self.write_items(out);
    }

    fn pause(&mut self, out: &mut String, paused: &Paused) -> Option<Value> {
        self.items.suspend();
        for request in &paused.requests {
            let arguments = request.arguments.to_string();
            self.items.ask_approval(&request.id.to_string(), &request.name, &arguments);
        }
        if let Some(sentence) = &paused.beside {
            self.items.replied(sentence, &[]);
        }
        self.write_items(out);
        let result = &paused.so_far.result;
        // What is asked in between is no output.
        self.end = End::of(result, false, result.usage.since(self.used_before));
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

    fn is_resumable(&self) -> bool {
        self.is_background
    }

    fn never_began(&mut self, out: &mut String) {
        self.end = End::CANCELLED;
        self.write_end(out, "response.incomplete");
    }

    fn failed(&mut self, out: &mut String, error: &Value) {
        self.items.break_off();
        self.write_items(out);
        self.end = End::failed(error);
        self.write_end(out, "response.failed");
    }
}
