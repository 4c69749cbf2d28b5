//! Writes events. Pure: journal entries in, text out.

use std::fmt::Write as _;

use agent_core::words::{
    AgentResult, CallProgress, EnclosingCall, Event, ModelReply, ToolCall, ToolReturn, Usage, Wait,
};
use http::StatusCode;
use run_service::live::Delta;
use serde::Serialize;
use serde_json::{Value, json};

/// What clients are told to wait before they connect again, in milliseconds.
const RETRY_MS: u32 = 1000;

/// [`RETRY_MS`] while a run waits for somebody: a minute.
const RETRY_WAITING_MS: u32 = 60_000;

/// The id of an event: the number of a journal entry, and which of the events that it stands for, counted
/// from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub number: u64,
    part: u64,
}

impl Position {
    /// `n` or `n.m`, as we write them; nothing for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if is_plain { text.parse().ok() } else { None }
        };
        match text.split_once('.') {
            None => Some(Self { number: plain(text)?, part: 0 }),
            Some((number, part)) => Some(Self { number: plain(number)?, part: plain(part)? }),
        }
    }
}

/// Writes a line that every reader of events skips.
pub(super) fn comment(out: &mut String, text: &str) {
    let _ = write!(out, ": {text}\n\n");
}

/// The text that is to be sent next.
#[derive(Debug, Default)]
pub(super) struct Frames {
    text: String,
    /// The last event that the client has already.
    after: Option<Position>,
    /// Whether the client has any event.
    has_begun: bool,
    /// What the run waits for, if the client has that event already.
    known_wait: Option<String>,
}

impl Frames {
    /// Nothing, for a client that has everything up to that event.
    pub(super) fn after(after: Option<Position>) -> Self {
        Self { text: String::new(), after, has_begun: after.is_some(), known_wait: None }
    }

    /// What was written and not sent yet.
    pub(super) fn text(&mut self) -> &mut String {
        &mut self.text
    }

    /// After how long a client that lost its connection connects again.
    pub(super) fn say_retry(&mut self) {
        let _ = write!(self.text, "retry: {RETRY_MS}\n\n");
    }

    /// Says that nothing follows until somebody has decided: what the client knows of that once more, so that
    /// a stream which is resumed while its run waits says what for.
    pub(super) fn say_waiting(&mut self) {
        self.text.extend(self.known_wait.take());
        let _ = write!(self.text, "retry: {RETRY_WAITING_MS}\n\n");
    }

    /// The events that a journal entry stands for; none for those that only matter to whoever carries the
    /// run.
    pub(super) fn event(&mut self, number: u64, event: &Event) {
        self.has_begun = true;
        match event {
            Event::Started { task, .. } => {
                self.numbered(number, 0, "run.started", &json!({ "runId": task.id, "model": task.model }));
                self.calls(number, task.options.call.as_slice());
            }
            Event::ModelReplied { reply, .. } => {
                self.numbered(number, 0, "model.replied", &Replied::from(reply));
                self.calls(number, &reply.tool_calls);
            }
            Event::ToolReturned { index, answer } => {
                self.numbered(number, 0, "tool.returned", &Returned::new(*index, answer));
            }
            Event::Waiting { waits, .. } if waits.is_empty() => {}
            Event::Waiting { waits, .. } => {
                let waits: Vec<_> = waits.iter().map(Waiting::from).collect();
                let data = json!({ "waits": waits });
                self.known_wait = None;
                if !self.numbered(number, 0, "run.waiting", &data) {
                    self.known_wait = Some(format!("id: {number}\nevent: run.waiting\ndata: {data}\n\n"));
                }
            }
            Event::Decided { wait, decision } => {
                let decided =
                    json!({ "waitId": wait, "decision": decision.verdict.as_str(), "by": decision.by });
                self.numbered(number, 0, "run.decided", &decided);
            }
            Event::ToolsStarted { .. }
            | Event::RecordingStarted { .. }
            | Event::NestedStarted { .. }
            | Event::NestedReturned { .. }
            | Event::Cancelled
            | Event::TakenUp { .. }
            | Event::HandedBack => {}
        }
    }

    /// The calls that an entry asks for.
    fn calls(&mut self, number: u64, calls: &[ToolCall]) {
        for (index, call) in (0_u64..).zip(calls) {
            let started = json!({ "index": index, "id": call.id, "name": call.name });
            self.numbered(number, index + 1, "tool.started", &started);
        }
    }

    /// A part of the reply that the model is writing.
    pub(super) fn delta(&mut self, delta: &Delta) {
        let data = match delta {
            Delta::Text(text) => json!({ "text": &**text }),
            Delta::Reset => json!({ "reset": true }),
        };
        self.frame(None, "model.delta", &data.to_string());
    }

    /// How far a call under way has got.
    pub(super) fn progress(&mut self, reported: &CallProgress) {
        let CallProgress { number: _, index, id, name, progress } = reported;
        let (message, fraction) = (&*progress.message, progress.fraction);
        let data = Progressed { index: *index, id, name, message, fraction };
        // Numbers and texts can always be written.
        self.frame(None, "tool.progress", &serde_json::to_string(&data).unwrap_or_default());
    }

    /// The result. One that no event came before was kept from an earlier run.
    pub(super) fn ended(&mut self, events: u64, result: &str, kept: Option<&AgentResult>) {
        let mut number = events;
        if let (false, Some(kept)) = (self.has_begun, kept) {
            self.numbered(0, 0, "run.started", &json!({ "runId": kept.id, "model": kept.model }));
            number = number.max(1);
        }
        self.frame(Some(&number.to_string()), "run.ended", result);
    }

    /// Writes that there is no result, behind so many events if none can follow.
    pub(super) fn failed(&mut self, events: Option<u64>, status: StatusCode, body: &Value) {
        let data = json!({ "status": status.as_u16(), "body": body });
        self.frame(events.map(|events| events.to_string()).as_deref(), "run.failed", &data.to_string());
    }

    /// False when the client has the event already.
    fn numbered(&mut self, number: u64, part: u64, name: &str, data: &impl Serialize) -> bool {
        let is_known = |after: Position| (number, part) <= (after.number, after.part);
        if self.after.is_some_and(is_known) {
            return false;
        }
        let id = if part == 0 { number.to_string() } else { format!("{number}.{part}") };
        // What events are made of can always be written: numbers, texts and JSON.
        let data = serde_json::to_string(data).unwrap_or_default();
        self.frame(Some(&id), name, &data);
        true
    }

    /// JSON on one line has no line breaks.
    fn frame(&mut self, id: Option<&str>, name: &str, data: &str) {
        let _ = match id {
            Some(id) => write!(self.text, "id: {id}\nevent: {name}\ndata: {data}\n\n"),
            None => write!(self.text, "event: {name}\ndata: {data}\n\n"),
        };
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replied<'a> {
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called<'a>>,
    finish: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Used>,
    model: &'a str,
}

#[derive(Serialize)]
struct Called<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
}

impl<'a> From<&'a ModelReply> for Replied<'a> {
    fn from(reply: &'a ModelReply) -> Self {
        let calls = reply.tool_calls.iter();
        Self {
            content: &reply.content,
            tool_calls: calls
                .map(|call| Called { id: &call.id, name: &call.name, arguments: &call.arguments })
                .collect(),
            finish: if reply.tool_calls.is_empty() { reply.finish.as_str() } else { "tool_calls" },
            usage: reply.usage.map(Used::from),
            model: &reply.model,
        }
    }
}

impl From<Usage> for Used {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, .. } = usage;
        Self { input_tokens, output_tokens, total_tokens: usage.total() }
    }
}

#[derive(Serialize)]
struct Progressed<'a> {
    index: usize,
    id: &'a str,
    name: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
}

/// Something that the run waits for, as those who decide are shown it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting<'a> {
    wait_id: &'a str,
    kind: &'static str,
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<&'a EnclosingCall>,
    tool: &'a str,
    arguments: &'a Value,
    digest: String,
    expires_at: u64,
    /// The job of the run whose end is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    child_job_id: Option<&'a str>,
}

impl<'a> From<&'a Wait> for Waiting<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            wait_id: &wait.id,
            kind: wait.kind.as_str(),
            index: wait.index,
            within: wait.within.as_ref(),
            tool: &wait.shown.tool,
            arguments: &wait.shown.arguments,
            digest: wait.shown.digest(),
            expires_at: wait.expires_at,
            child_job_id: wait.child.as_ref().map(|child| child.job_id.as_str()),
        }
    }
}

/// As in the result: what operators read of a call stays out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Returned<'a> {
    index: usize,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<&'a str>,
    duration_ms: f64,
    outcome: &'static str,
    content: &'a str,
}

impl<'a> Returned<'a> {
    fn new(index: usize, answer: &'a ToolReturn) -> Self {
        let ToolReturn { content, receipt } = answer;
        Self {
            index,
            name: &receipt.name,
            component: receipt.component.as_deref(),
            duration_ms: receipt.duration_ms,
            outcome: receipt.outcome.as_str(),
            content,
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{Finish, ToolCall, ToolOutcome, ToolProgress, ToolReceipt};
    use proptest::prelude::*;

    use super::*;

    fn replied(text: &str, calls: usize) -> Event {
        let call =
            |n: usize| ToolCall { id: format!("c{n}"), name: "add".into(), arguments: json!({"a": n}) };
        Event::from(ModelReply {
            content: text.into(),
            tool_calls: (0..calls).map(call).collect(),
            usage: Some(Usage::of(3, 4)),
            finish: Finish::Done,
            model: "test/m".into(),
        })
    }

    fn written(after: Option<Position>, events: &[(u64, Event)]) -> String {
        let mut frames = Frames::after(after);
        events.iter().for_each(|(number, event)| frames.event(*number, event));
        std::mem::take(frames.text())
    }

    #[test]
    fn a_reply_with_calls_is_several_events() {
        let receipt = ToolReceipt { duration_ms: 0.5, ..ToolReceipt::new("add", ToolOutcome::Ok) };
        let returned = Event::ToolReturned { index: 1, answer: ToolReturn { content: "3".into(), receipt } };
        let events = [(1, replied("", 2)), (2, Event::ToolsStarted { indexes: vec![0] }), (3, returned)];
        insta::assert_snapshot!(written(None, &events), @r#"
        id: 1
        event: model.replied
        data: {"content":"","toolCalls":[{"id":"c0","name":"add","arguments":{"a":0}},{"id":"c1","name":"add","arguments":{"a":1}}],"finish":"tool_calls","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7},"model":"test/m"}

        id: 1.1
        event: tool.started
        data: {"id":"c0","index":0,"name":"add"}

        id: 1.2
        event: tool.started
        data: {"id":"c1","index":1,"name":"add"}

        id: 3
        event: tool.returned
        data: {"index":1,"name":"add","durationMs":0.5,"outcome":"ok","content":"3"}
        "#);
    }

    #[test]
    fn what_has_no_id_and_the_end_are_written() {
        let mut frames = Frames::after(Position::parse("4"));
        frames.say_retry();
        frames.delta(&Delta::Text("a\nb".into()));
        frames.delta(&Delta::Reset);
        for fraction in [Some(0.25), None] {
            let progress = ToolProgress { message: "a\nb".into(), fraction };
            let (id, name) = ("c0".into(), "add".into());
            frames.progress(&CallProgress { number: 4, index: 0, id, name, progress });
        }
        comment(frames.text(), "heartbeat");
        frames.ended(5, r#"{"id":"run_1"}"#, None);
        frames.failed(None, StatusCode::SERVICE_UNAVAILABLE, &json!({"error": "no"}));
        insta::assert_snapshot!(std::mem::take(frames.text()), @r#"
        retry: 1000

        event: model.delta
        data: {"text":"a\nb"}

        event: model.delta
        data: {"reset":true}

        event: tool.progress
        data: {"index":0,"id":"c0","name":"add","message":"a\nb","fraction":0.25}

        event: tool.progress
        data: {"index":0,"id":"c0","name":"add","message":"a\nb"}

        : heartbeat

        id: 5
        event: run.ended
        data: {"id":"run_1"}

        event: run.failed
        data: {"body":{"error":"no"},"status":503}
        "#);
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for (text, number, part) in [("0", 0, 0), ("7", 7, 0), ("7.2", 7, 2)] {
            assert_eq!(Position::parse(text), Some(Position { number, part }));
        }
        for text in ["", "-1", "+1", "1.", ".1", "1.2.3", "x", "99999999999999999999", " 1"] {
            assert_eq!(Position::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        /// Whoever resumes after any event gets exactly the rest, and no text breaks out of its event.
        #[test]
        fn a_stream_can_be_cut_after_any_event(texts in proptest::collection::vec((any::<String>(), 0_usize..4), 1..5)) {
            let events: Vec<_> =
                (0..).zip(texts.iter().map(|(text, calls)| replied(text, *calls))).collect();
            let whole = written(None, &events);
            let frames: Vec<_> = whole.split_inclusive("\n\n").collect();
            let expected: usize = texts.iter().map(|(_, calls)| calls + 1).sum();
            prop_assert_eq!(frames.len(), expected);
            for (index, frame) in frames.iter().enumerate() {
                prop_assert_eq!(frame.lines().count(), 4);
                let id = frame.lines().next().and_then(|line| line.strip_prefix("id: ")).unwrap();
                prop_assert_eq!(written(Position::parse(id), &events), frames[index + 1..].concat());
            }
        }
    }
}
