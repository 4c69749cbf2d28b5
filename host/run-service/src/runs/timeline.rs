//! A run's journal as text for people: one line for every event, with what it cost beneath, and the totals at
//! the end.
//!
//! Events bear their number in the journal and stand in its order, but for calls that tools made of other
//! tools: those stand beneath the call that made them. Journals have no times; when the run began and how
//! long it took is its record's to say. Whatever users, models and tools wrote is cut and has its control
//! characters escaped, so that it can play no tricks on a terminal.

#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::terminal_text::shown;
use agent_core::words::{
    Event, Exchange, ModelReply, ReceiptDetail, RunOutcome, RunRecord, Task, ToolCall, ToolOutcome,
    ToolReceipt, Usage, Verdict,
};
use chrono::{DateTime, SecondsFormat};

/// Most characters of a text in sentences, and of a name or a digest.
const TEXT_CHARS: usize = 200;
const WORD_CHARS: usize = 100;

/// Writes out what a journal and, once the run has ended, its record say.
pub fn timeline(events: &[Event], record: Option<&RunRecord>) -> String {
    let mut timeline = Timeline::default();
    timeline.head(record);
    timeline.body(events);
    timeline.foot(record, events.is_empty());
    timeline.text
}

/// The lines of the events alone: those of more events of the same run begin with the same lines.
pub(super) fn body(events: &[Event]) -> String {
    let mut timeline = Timeline::default();
    timeline.body(events);
    timeline.text
}

/// What stands beneath the lines of the events once the run has ended.
pub(super) fn foot(events: &[Event], record: Option<&RunRecord>) -> String {
    let mut timeline = Timeline::default();
    timeline.body(events);
    let end_of_body = timeline.text.len();
    timeline.foot(record, events.is_empty());
    timeline.text.split_off(end_of_body)
}

#[derive(Default)]
struct Timeline<'a> {
    text: String,
    /// The calls of the last reply.
    calls: &'a [ToolCall],
    /// Calls that tools made and that stand beneath no call yet, by the index of the call that made them.
    nested: BTreeMap<usize, Vec<(usize, &'a Event)>>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    model_calls: u32,
    usage: Usage,
    /// Replies whose provider did not say what they used.
    uncounted: u32,
    tool_calls: u32,
    failed: u32,
    nested: u32,
    tools_ms: f64,
    taken_up: u32,
    cancelled: bool,
}

impl<'a> Timeline<'a> {
    fn head(&mut self, record: Option<&RunRecord>) {
        let Some(record) = record else { return };
        let mut parts =
            vec![format!("run {}", word(&record.id)), format!("started {}", moment(record.started_at))];
        parts.extend(record.took().map(|took| format!("took {} s", rounded(took.as_secs_f64()))));
        parts.push(format!("request {}", word(&record.request_id)));
        parts.extend(record.job_id.as_deref().map(|id| format!("job {}", word(id))));
        parts.extend(record.user_id.as_deref().map(|id| format!("user {}", word(id))));
        self.line(format_args!("{}", parts.join(", ")));
    }

    fn body(&mut self, events: &'a [Event]) {
        for (number, event) in events.iter().enumerate() {
            self.event(number, event);
        }
    }

    fn foot(&mut self, record: Option<&RunRecord>, is_empty: bool) {
        self.leave_calls();
        self.totals(record, is_empty);
    }

    fn event(&mut self, number: usize, event: &'a Event) {
        match event {
            Event::Started { task, tools } => self.started(number, task, tools),
            Event::ModelReplied { reply, last_by, .. } => {
                self.leave_calls();
                self.replied(number, reply);
                if last_by.is_some() {
                    self.beneath(1, format_args!("asked to end the run in words"));
                }
            }
            Event::ToolsStarted { indexes } => {
                let calls: Vec<_> = indexes.iter().map(|index| self.call_name(*index)).collect();
                self.numbered(number, format_args!("begins {}, not to be made twice", calls.join(" and ")));
            }
            Event::RecordingStarted { index, .. } => {
                let name = self.call_name(*index);
                self.numbered(number, format_args!("begins {name}, to be made again if it has to wait"));
            }
            Event::ToolReturned { index, answer } => {
                self.totals.tool_calls += 1;
                self.totals.tools_ms += answer.receipt.duration_ms;
                self.totals.failed += u32::from(answer.receipt.outcome != ToolOutcome::Ok);
                let name = self.call_name(*index);
                self.numbered(number, format_args!("{name}: {}", came_to(&answer.receipt)));
                self.beneath(1, format_args!("{}", quoted(&answer.content)));
                self.detail(1, &answer.receipt);
                self.leave_nested(*index);
            }
            Event::NestedStarted { index, .. } | Event::NestedReturned { index, .. } => {
                self.nested.entry(*index).or_default().push((number, event));
            }
            Event::Cancelled => {
                self.leave_calls();
                self.totals.cancelled = true;
                self.numbered(number, format_args!("cancelled"));
            }
            Event::TakenUp { by } => {
                self.totals.taken_up += 1;
                self.numbered(number, format_args!("taken up as {}", word(by)));
            }
            Event::HandedBack => self.numbered(number, format_args!("handed back")),
            Event::Waiting { waits, .. } => self.waiting(number, waits),
            Event::Decided { wait, decision } => {
                // The run pays for those that it began.
                if let Verdict::Ended { usage, .. } = &decision.verdict {
                    self.totals.usage = self.totals.usage.plus(*usage);
                }
                let decided = waits::decided(decision);
                self.numbered(number, format_args!("{}: {decided}", word(wait)));
            }
        }
    }

    fn started(&mut self, number: usize, task: &'a Task, tools: &str) {
        let user = task.principal.user_id.as_deref();
        let user = user.map_or_else(|| "nobody known".to_owned(), |id| format!("user {}", word(id)));
        let id = word(&task.id);
        if let Some(call) = &task.options.call {
            self.numbered(number, format_args!("started: {id} for {user}, without a model"));
            self.calls = std::slice::from_ref(call);
            return self.asks_for("calls", 0, call);
        }
        self.numbered(number, format_args!("started: {id} for {user}, with {}", word(&task.model)));
        let before = [
            task.instructions.as_ref().map(|text| format!("instructions of {} bytes", text.len())),
            Some(task.options.history.len())
                .filter(|count| *count > 0)
                .map(|n| format!("a history of {n} messages")),
        ];
        let before: Vec<_> = before.into_iter().flatten().collect();
        if !before.is_empty() {
            self.beneath(1, format_args!("after {}", before.join(" and ")));
        }
        self.beneath(1, format_args!("{}", quoted(&task.asked())));
        let limits = task.limits;
        self.beneath(
            1,
            format_args!(
                "at most {} model calls and {} tokens, tools {}",
                limits.iterations,
                limits.tokens,
                word(tools)
            ),
        );
    }

    fn replied(&mut self, number: usize, reply: &'a ModelReply) {
        self.totals.model_calls += 1;
        let tokens = match reply.usage {
            Some(usage) => {
                self.totals.usage = self.totals.usage.plus(usage);
                let cached = match usage.cached_tokens {
                    0 => String::new(),
                    cached => format!(" ({cached} of them kept by the provider)"),
                };
                format!("{} tokens read{cached}, {} written", usage.input_tokens, usage.output_tokens)
            }
            None => {
                self.totals.uncounted += 1;
                "tokens not counted".to_owned()
            }
        };
        let (call, model) = (self.totals.model_calls, word(&reply.model));
        let finish = if reply.tool_calls.is_empty() { reply.finish.as_str() } else { "tool_calls" };
        self.numbered(number, format_args!("model call {call}: {tokens}, finish {finish}, {model}"));
        if !reply.content.is_empty() {
            self.beneath(1, format_args!("{}", quoted(&reply.content)));
        }
        self.calls = &reply.tool_calls;
        for (index, call) in reply.tool_calls.iter().enumerate() {
            self.asks_for("asks for", index, call);
        }
    }

    fn asks_for(&mut self, verb: &str, index: usize, call: &ToolCall) {
        let arguments = call.arguments.to_string();
        let (name, arguments) = (word(&call.name), shown(&arguments, TEXT_CHARS));
        self.beneath(1, format_args!("{verb} [{index}] {name} {arguments}"));
    }

    /// What a call cost and reached, beneath its line.
    fn detail(&mut self, depth: usize, receipt: &ToolReceipt) {
        let Some(detail) = &receipt.detail else { return };
        if let Some(cause) = &detail.cause {
            self.beneath(depth, format_args!("because {}", shown(cause, TEXT_CHARS)));
        }
        let cost = cost_of(detail);
        if !cost.is_empty() {
            self.beneath(depth, format_args!("{}", cost.join(", ")));
        }
        for exchange in &detail.exchanges {
            self.beneath(depth, format_args!("{}", ExchangeLine(exchange)));
        }
        if detail.unlisted_requests > 0 {
            let requests = count(detail.unlisted_requests, "request");
            self.beneath(depth, format_args!("{requests} to further hosts"));
        }
        for refusal in &detail.refusals {
            self.beneath(depth, format_args!("request refused: {}", shown(refusal, TEXT_CHARS)));
        }
        if detail.unlisted_refusals > 0 {
            let requests = count(detail.unlisted_refusals, "further request");
            self.beneath(depth, format_args!("{requests} refused"));
        }
        if !detail.secrets.is_empty() {
            let names: Vec<_> = detail.secrets.iter().map(|name| word(name)).collect();
            self.beneath(depth, format_args!("secrets used: {}", names.join(", ")));
        }
        if detail.redactions > 0 {
            let values = count(detail.redactions, "value");
            self.beneath(depth, format_args!("{values} of secrets replaced in what came back"));
        }
        let digests = [("arguments", &detail.arguments), ("policy", &detail.policy)];
        let digests: Vec<_> = digests
            .iter()
            .filter_map(|(what, digest)| Some(format!("{what} {}", word(digest.as_ref()?))))
            .collect();
        if !digests.is_empty() {
            self.beneath(depth, format_args!("{}", digests.join(", ")));
        }
    }

    /// The calls that the call of that index made of other tools.
    fn leave_nested(&mut self, index: usize) {
        for (number, event) in self.nested.remove(&index).unwrap_or_default() {
            match event {
                Event::NestedStarted { number: nested, name, .. } => {
                    let name = word(name);
                    self.nested_line(
                        number,
                        format_args!("begins [{index}.{nested}] {name}, not to be made twice"),
                    );
                }
                Event::NestedReturned { number: nested, receipt, error, .. } => {
                    self.totals.nested += 1;
                    let name = word(&receipt.name);
                    self.nested_line(number, format_args!("[{index}.{nested}] {name}: {}", came_to(receipt)));
                    if let Some(error) = error {
                        self.beneath(2, format_args!("{}", quoted(error)));
                    }
                    self.detail(2, receipt);
                }
                _ => {}
            }
        }
    }

    /// What calls without an answer did.
    fn leave_calls(&mut self) {
        while let Some(index) = self.nested.keys().next().copied() {
            let name = self.call_name(index);
            self.beneath(0, format_args!("{name}: no answer"));
            self.leave_nested(index);
        }
    }

    fn totals(&mut self, record: Option<&RunRecord>, is_empty: bool) {
        let ended = match record.map(|record| &record.outcome) {
            Some(RunOutcome::Ended { stop_reason, .. }) => stop_reason.as_str().to_owned(),
            Some(RunOutcome::Failed { error, .. }) => format!("failed: {}", shown(error, TEXT_CHARS)),
            Some(RunOutcome::Running) => "under way, or its process was killed".to_owned(),
            None if self.totals.cancelled => "cancelled".to_owned(),
            None => "not ended, or its record is not written yet".to_owned(),
        };
        if is_empty {
            self.line(format_args!("{ended}; its journal is not kept"));
            return;
        }
        let Totals { model_calls, usage, uncounted, tool_calls, failed, nested, tools_ms, taken_up, .. } =
            self.totals;
        let mut parts = vec![
            count(model_calls, "model call"),
            format!(
                "{} tokens ({} read, {} written)",
                usage.total(),
                usage.input_tokens,
                usage.output_tokens
            ),
        ];
        parts.extend((uncounted > 0).then(|| format!("{} not counted", count(uncounted, "reply"))));
        parts.push(count(tool_calls, "tool call"));
        parts.extend((failed > 0).then(|| format!("{failed} of them without a value")));
        parts.extend((nested > 0).then(|| count(nested, "nested call")));
        parts.push(format!("{} ms in tools", rounded(tools_ms)));
        parts.extend((taken_up > 0).then(|| format!("taken up {}", count(taken_up, "time"))));
        self.line(format_args!("{ended}; {}", parts.join(", ")));
    }

    fn call_name(&self, index: usize) -> String {
        let name = self.calls.get(index).map_or_else(|| "?".to_owned(), |call| word(&call.name));
        format!("[{index}] {name}")
    }

    fn numbered(&mut self, number: usize, text: fmt::Arguments<'_>) {
        self.line(format_args!("{number:>4}  {text}"));
    }

    fn nested_line(&mut self, number: usize, text: fmt::Arguments<'_>) {
        self.line(format_args!("{number:>4}      {text}"));
    }

    fn beneath(&mut self, depth: usize, text: fmt::Arguments<'_>) {
        let indent = 6 + 4 * depth;
        self.line(format_args!("{:indent$}{text}", ""));
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{text}");
    }
}

/// How a call ended and how long it took.
fn came_to(receipt: &ToolReceipt) -> String {
    let mut parts = vec![receipt.outcome.as_str().to_owned()];
    if let Some(code) = receipt.code() {
        parts[0].push_str(&format!(" ({})", word(code)));
    }
    parts.push(format!("{} ms", rounded(receipt.duration_ms)));
    parts.extend((receipt.nested > 0).then(|| format!("made {}", count(receipt.nested, "call"))));
    parts.extend(receipt.component.as_deref().map(word));
    parts.join(", ")
}

fn cost_of(detail: &ReceiptDetail) -> Vec<String> {
    let times =
        [("waited", detail.waited_ms), ("instance made in", detail.instantiate_ms), ("ran", detail.run_ms)];
    let times = times.iter().filter_map(|(what, ms)| Some(format!("{what} {} ms", rounded((*ms)?))));
    let mut parts: Vec<_> = times.collect();
    let mebibytes = |bytes: u64| rounded(bytes as f64 / 1024.0 / 1024.0);
    parts.extend(detail.peak_memory_bytes.map(|bytes| format!("{} MiB of memory", mebibytes(bytes))));
    parts.extend(detail.fuel.map(|fuel| format!("fuel {fuel}")));
    parts.extend((detail.attempts > 1).then(|| format!("run {}", count(detail.attempts, "time"))));
    parts.extend(detail.cached.then(|| "from the cache".to_owned()));
    parts.extend(detail.per_user.then(|| "may differ by user".to_owned()));
    parts
}

struct ExchangeLine<'a>(&'a Exchange);

impl fmt::Display for ExchangeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exchange { scheme, host, port, address, requests, failures, sent_bytes, received_bytes } = self.0;
        write!(f, "{}://{}:{port}", word(scheme), word(host))?;
        if let Some(address) = address {
            write!(f, " at {}", word(address))?;
        }
        write!(f, ": {}", count(*requests, "request"))?;
        if *failures > 0 {
            write!(f, ", {failures} without a whole answer")?;
        }
        write!(f, ", {sent_bytes} bytes sent, {received_bytes} received")
    }
}

/// `1 call`, `2 calls`, `2 replies`.
fn count(number: u32, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {what}s"),
    }
}

/// A number with three decimals at most.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// `2026-11-21T12:00:00.000Z`. A time that no calendar has, which only a damaged store could hold, is said to
/// be unknown.
pub fn moment(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).ok();
    let milliseconds = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    let moment = milliseconds.and_then(DateTime::from_timestamp_millis);
    moment.map_or_else(
        || "at an unknown time".to_owned(),
        |moment| moment.to_rfc3339_opts(SecondsFormat::Millis, true),
    )
}

fn word(text: &str) -> String {
    shown(text, WORD_CHARS)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text, TEXT_CHARS))
}
