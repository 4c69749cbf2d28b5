//! Runs as administrators read them: a line for each, and what one did, event by event. Every text in it is
//! cut at [`MOST_TEXT`], and there are [`MOST_EVENTS`] events in one answer, so that its size has a bound.

use std::borrow::Cow;

use agent_core::words::{Event, ModelReply, RunOutcome, RunRecord, Task, ToolCall, ToolReceipt, Usage};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::parameters::cursor_behind;
use super::super::timestamp::iso_8601;

/// Most events in one answer. A run has some dozens.
pub(super) const MOST_EVENTS: u32 = 500;

/// Most bytes of one text: more than a screen shows.
const MOST_TEXT: usize = 16 << 10;

/// A page of the list of runs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunPage)]
pub(super) struct RunPage<'a> {
    /// The runs, the one that ended last first.
    data: Vec<RunLine<'a>>,
    /// What `cursor` has to be for the next page; null when this is the last one.
    #[schema(required = true, example = "1795262401500:run_01a204ec6206715fbb305322b42db99d")]
    next_cursor: Option<String>,
}

impl<'a> RunPage<'a> {
    /// Of one record more than the page is to have, if there is one more.
    pub(super) fn new(records: &'a [RunRecord], limit: usize) -> Self {
        let shown = records.get(..limit).unwrap_or(records);
        let last = shown.last().filter(|_| records.len() > limit);
        let next_cursor = last.map(|last| cursor_behind(last.finished_at, &last.id));
        Self { data: shown.iter().map(RunLine::from).collect(), next_cursor }
    }
}

/// What is known of a run without reading what it did.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunSummary)]
pub(super) struct RunLine<'a> {
    /// Names it.
    #[schema(example = "run_01a204ec6206715fbb305322b42db99d")]
    run_id: &'a str,
    /// The request or the job that it was made for.
    #[schema(example = "order-4711")]
    request_id: &'a str,
    /// Whose it is; nobody is known in Variant A.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "user-1")]
    user_id: Option<&'a str>,
    /// The job that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "1")]
    job_id: Option<&'a str>,
    /// When it began.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    started_at: String,
    /// When it ended; of one that goes on, when its process said so last; absent while a job goes on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime, example = "2026-11-21T12:00:01.500Z")]
    finished_at: Option<String>,
    /// `running`, `ended` or `failed`.
    #[schema(example = "ended")]
    outcome: &'static str,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "completed")]
    stop_reason: Option<&'static str>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "the model's provider did not answer")]
    error: Option<Cow<'a, str>>,
    /// `provider/model` of the last reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "openai/gpt-5")]
    model: Option<&'a str>,
    /// Model calls that were made.
    #[schema(example = 2)]
    model_calls: u32,
    /// What they cost together.
    usage: TokenCounts,
}

/// Tokens.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TokenCounts {
    /// Read by the model.
    #[schema(example = 420)]
    input_tokens: u64,
    /// Written by it.
    #[schema(example = 32)]
    output_tokens: u64,
    /// Both.
    #[schema(example = 452)]
    total_tokens: u64,
    /// Tokens read that the provider had kept from earlier calls.
    #[schema(example = 128)]
    cached_tokens: u64,
    /// Tokens read that the provider keeps for later calls, as far as it says.
    #[schema(example = 0)]
    kept_tokens: u64,
    /// Tokens written that are thoughts, as far as the provider counts them apart.
    #[schema(example = 0)]
    reasoning_tokens: u64,
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cached_tokens, kept_tokens, reasoning_tokens } = usage;
        let total_tokens = usage.total();
        Self { input_tokens, output_tokens, total_tokens, cached_tokens, kept_tokens, reasoning_tokens }
    }
}

impl<'a> From<&'a RunRecord> for RunLine<'a> {
    fn from(record: &'a RunRecord) -> Self {
        let line = Self {
            run_id: &record.id,
            request_id: &record.request_id,
            user_id: record.user_id.as_deref(),
            job_id: record.job_id.as_deref(),
            started_at: iso_8601(record.started_at),
            finished_at: record.last_seen().map(iso_8601),
            outcome: "running",
            stop_reason: None,
            error: None,
            model: None,
            model_calls: 0,
            usage: Usage::default().into(),
        };
        match &record.outcome {
            RunOutcome::Running => line,
            RunOutcome::Ended { stop_reason, iterations, usage, model } => Self {
                outcome: "ended",
                stop_reason: Some(stop_reason.as_str()),
                model: Some(model),
                model_calls: *iterations,
                usage: (*usage).into(),
                ..line
            },
            RunOutcome::Failed { error, iterations, usage, .. } => Self {
                outcome: "failed",
                error: Some(cut(error)),
                model_calls: *iterations,
                usage: (*usage).into(),
                ..line
            },
        }
    }
}

/// What a run did.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunTimeline)]
pub(super) struct Timeline<'a> {
    /// What is known of the run beside; absent while its record is not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    run: Option<RunLine<'a>>,
    /// Its events, in their order.
    data: Vec<Entry<'a>>,
    /// What `from` has to be for the events after these; null when there were none.
    #[schema(required = true, example = 500)]
    next_from: Option<u64>,
}

impl<'a> Timeline<'a> {
    /// Of events that are numbered from `from` on, one more than are shown, if there is one more.
    pub(super) fn new(record: Option<&'a RunRecord>, from: u64, events: &'a [Event]) -> Self {
        let numbered = (from..).zip(events);
        let data: Vec<_> =
            numbered.take(MOST_EVENTS as usize).map(|(number, event)| Entry::new(number, event)).collect();
        let next_from = (events.len() > data.len()).then(|| from + data.len() as u64);
        Self { run: record.map(RunLine::from), data, next_from }
    }
}

/// An event of a run. Which fields there are depends on `kind`.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunEntry)]
struct Entry<'a> {
    /// Its number, counted from 0.
    #[schema(example = 2)]
    number: u64,
    /// `started`, `model_replied`, `tools_started`, `recording_started`, `tool_returned`, `nested_started`,
    /// `nested_returned`, `waiting`, `decided`, `cancelled`, `taken_up` or `handed_back`.
    #[schema(example = "tool_returned")]
    kind: &'static str,
    /// The question, the reply, or what a tool answered. A long one is cut, and says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "{\"value\": 42}")]
    text: Option<Cow<'a, str>>,
    /// `provider/model` that is asked, or that replied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "openai/gpt-5")]
    model: Option<&'a str>,
    /// Why the model stopped writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "tool_calls")]
    finish: Option<&'static str>,
    /// What the model call cost; absent when its provider did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    usage: Option<TokenCounts>,
    /// The calls that the model asks for, or the only one of a run that asks none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CallBody<'a>>,
    /// Which call of the reply before it is about, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 0)]
    index: Option<usize>,
    /// Which calls of the reply are about to be made that must not be made twice.
    #[serde(skip_serializing_if = "<[usize]>::is_empty")]
    #[schema(example = json!([0]))]
    indexes: &'a [usize],
    /// Which call it is of those that the tool made itself, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 0)]
    nested: Option<u32>,
    /// The tool that is about to be called by another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "fetch")]
    tool: Option<&'a str>,
    /// What a call came to, what it cost and what it reached, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = std::collections::BTreeMap<String, serde_json::Value>, example = json!({"name": "calculate", "durationMs": 1.5, "outcome": "ok"}))]
    receipt: Option<&'a ToolReceipt>,
    /// What a tool was told of a call of its own that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "denied: the request was not sent")]
    error: Option<Cow<'a, str>>,
    /// Ids of what the run waits for, or of what was decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["1:37ddff8e-1.0"]))]
    waits: Vec<&'a str>,
    /// What was decided: `approve`, `reject` or `edit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "approve")]
    decision: Option<&'static str>,
    /// Who took the run up, or decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "10.0.0.7#42")]
    by: Option<&'a str>,
}

/// A call that a model asks for.
#[derive(Serialize, ToSchema)]
#[schema(as = RunCall)]
struct CallBody<'a> {
    /// The model's name for it.
    #[schema(example = "call_1")]
    id: &'a str,
    /// The tool.
    #[schema(example = "calculate")]
    name: &'a str,
    /// Its arguments, as JSON. Long ones are cut, and say so.
    #[schema(example = "{\"expression\":\"6 * 7\"}")]
    arguments: String,
}

impl<'a> From<&'a ToolCall> for CallBody<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let arguments = call.arguments.to_string();
        Self { id: &call.id, name: &call.name, arguments: cut(&arguments).into_owned() }
    }
}

impl<'a> Entry<'a> {
    fn new(number: u64, event: &'a Event) -> Self {
        let of_kind = |kind| Self { number, kind, ..Self::default() };
        match event {
            Event::Started { task, .. } => of_kind("started").with_task(task),
            Event::ModelReplied { reply, .. } => of_kind("model_replied").with_reply(reply),
            Event::ToolsStarted { indexes } => Self { indexes, ..of_kind("tools_started") },
            Event::RecordingStarted { index, .. } => {
                Self { index: Some(*index), ..of_kind("recording_started") }
            }
            Event::ToolReturned { index, answer } => Self {
                index: Some(*index),
                text: Some(cut(&answer.content)),
                receipt: Some(&answer.receipt),
                ..of_kind("tool_returned")
            },
            Event::NestedStarted { index, number, name } => Self {
                index: Some(*index),
                nested: Some(*number),
                tool: Some(name),
                ..of_kind("nested_started")
            },
            Event::NestedReturned { index, number, receipt, error, .. } => Self {
                index: Some(*index),
                nested: Some(*number),
                receipt: Some(receipt),
                error: error.as_deref().map(cut),
                ..of_kind("nested_returned")
            },
            Event::Waiting { waits, .. } => {
                Self { waits: waits.iter().map(|wait| wait.id.as_str()).collect(), ..of_kind("waiting") }
            }
            Event::Decided { wait, decision } => Self {
                waits: vec![wait],
                decision: Some(decision.verdict.as_str()),
                by: decision.by.as_deref(),
                ..of_kind("decided")
            },
            Event::Cancelled => of_kind("cancelled"),
            Event::TakenUp { by } => Self { by: Some(by), ..of_kind("taken_up") },
            Event::HandedBack => of_kind("handed_back"),
        }
    }

    fn with_task(self, task: &'a Task) -> Self {
        let text = match task.asked() {
            Cow::Borrowed(text) => cut(text),
            Cow::Owned(text) => cut(&text).into_owned().into(),
        };
        let calls = task.options.call.iter().map(CallBody::from).collect();
        Self { text: Some(text), model: Some(&task.model), calls, ..self }
    }

    fn with_reply(self, reply: &'a ModelReply) -> Self {
        let finish = if reply.tool_calls.is_empty() { reply.finish.as_str() } else { "tool_calls" };
        Self {
            text: Some(cut(&reply.content)),
            model: Some(&reply.model),
            finish: Some(finish),
            usage: reply.usage.map(TokenCounts::from),
            calls: reply.tool_calls.iter().map(CallBody::from).collect(),
            ..self
        }
    }
}

/// At most [`MOST_TEXT`] bytes of a text, and how many more there were.
fn cut(text: &str) -> Cow<'_, str> {
    let end = text.floor_char_boundary(MOST_TEXT);
    match text.get(..end) {
        Some(beginning) if end < text.len() => {
            format!("{beginning}… and {} bytes more", text.len() - end).into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{asks_for, says, task};
    use agent_core::words::{ContentPart, Image, Message, Options, UserContent};
    use serde_json::{Value, json};

    use super::*;

    fn timeline(events: &[Event], from: u64) -> Value {
        serde_json::to_value(Timeline::new(None, from, events)).unwrap()
    }

    #[test]
    fn texts_and_lists_have_bounds_and_say_so() {
        let long = "€".repeat(10_000);
        let events = vec![Event::from(says(&long)); 502];
        let first = timeline(&events, 0);
        assert_eq!((first["data"].as_array().unwrap().len(), &first["nextFrom"]), (500, &json!(500)));
        let text = first["data"][0]["text"].as_str().unwrap();
        assert!(
            text.len() < MOST_TEXT + 40 && text.ends_with("… and 13617 bytes more"),
            "{}",
            &text[16_000..]
        );
        let rest = timeline(&events[500..], 500);
        assert_eq!((&rest["data"][1]["number"], &rest["nextFrom"]), (&json!(501), &Value::Null));
        let called = timeline(&[asks_for(&[("c1", "echo", json!({ "text": long }))]).into()], 0);
        let arguments = called["data"][0]["calls"][0]["arguments"].as_str().unwrap();
        assert!(arguments.len() < MOST_TEXT + 40 && arguments.ends_with(" bytes more"));
    }

    #[test]
    fn an_image_is_named_and_never_shown() {
        let url = format!("data:image/png;base64,{}", "A".repeat(16_384));
        let parts = vec![
            ContentPart::Text { text: "Which?".into() },
            ContentPart::Image(Image::new(&url, None).unwrap()),
        ];
        let asked = Message::User { content: UserContent::of_parts(parts) };
        let options = Options { history: vec![asked], ..Options::default() };
        let task = Task { options, ..task("") };
        let shown = timeline(&[Event::Started { task, tools: "t".into() }], 0);
        assert_eq!(shown["data"][0]["text"], "Which?\n[image image/png, 12 KiB]");
        assert!(!shown.to_string().contains("AAAA"));
    }

    #[test]
    fn a_run_that_a_job_goes_on_with_has_no_end_yet() {
        let streamed = agent_core::testing::record("run_1", RunOutcome::Running);
        let parked = RunRecord { job_id: Some("1".into()), ..streamed.clone() };
        let page = serde_json::to_value(RunPage::new(&[streamed, parked], 2)).unwrap();
        assert_eq!(page["data"][0]["finishedAt"], "1970-01-01T00:00:00.000Z");
        assert!(page["data"][1].get("finishedAt").is_none(), "{page}");
    }

    #[test]
    fn each_event_says_what_it_is_and_nothing_that_it_is_not() {
        let events = [
            Event::from(says("hi")),
            Event::ToolsStarted { indexes: vec![0, 2] },
            Event::NestedStarted { index: 1, number: 3, name: "fetch".into() },
            Event::RecordingStarted { index: 2, at: 1, seed: "s".into() },
            Event::TakenUp { by: "w".into() },
            Event::HandedBack,
            Event::Cancelled,
        ];
        let data = timeline(&events, 7)["data"].take();
        assert_eq!(
            data.as_array().unwrap()[1..],
            [
                json!({ "number": 8, "kind": "tools_started", "indexes": [0, 2] }),
                json!({ "number": 9, "kind": "nested_started", "index": 1, "nested": 3, "tool": "fetch" }),
                json!({ "number": 10, "kind": "recording_started", "index": 2 }),
                json!({ "number": 11, "kind": "taken_up", "by": "w" }),
                json!({ "number": 12, "kind": "handed_back" }),
                json!({ "number": 13, "kind": "cancelled" }),
            ]
        );
        assert_eq!((&data[0]["kind"], &data[0]["text"]), (&json!("model_replied"), &json!("hi")));
    }
}
