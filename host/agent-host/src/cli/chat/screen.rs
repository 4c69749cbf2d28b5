//! A run on a terminal: replies as they are written, a line for each call of a tool and what it reports.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use agent_core::terminal_text::shown;
use serde_json::{Value, json};

use super::events::Event;
use host_setup::output::{json_line, plain};

/// Most characters of a name, and of what a tool that failed says.
const NAME_CHARS: usize = 64;
const CONTENT_CHARS: usize = 200;

pub(super) struct Screen {
    json: bool,
    /// The reply that is being written has been shown so far.
    in_reply: bool,
    /// A reply with text was shown in this run.
    showed_text: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, in_reply: false, showed_text: false }
    }

    pub(super) fn show(&mut self, event: &Event) -> io::Result<()> {
        let text = if self.json { as_json(event) } else { self.text_of(event) };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// What there is to write. Texts are of models and tools: nothing in them may steer the terminal.
    fn text_of(&mut self, event: &Event) -> String {
        let data = &event.data;
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        match event.name.as_str() {
            "run.started" => {
                (self.in_reply, self.showed_text) = (false, false);
                String::new()
            }
            "model.delta" if data["reset"] == true => self.end_reply("… that reply was broken off; again:\n"),
            "model.delta" => {
                (self.in_reply, self.showed_text) = (true, true);
                plain(text("text"))
            }
            "model.replied" if self.in_reply => self.end_reply(""),
            "model.replied" if text("content").is_empty() => String::new(),
            "model.replied" => {
                self.showed_text = true;
                plain(text("content")) + "\n"
            }
            "tool.started" => self.end_reply(&format!("· {} …\n", shown(text("name"), NAME_CHARS))),
            "tool.progress" => self.end_reply(&progressed(data)),
            "tool.returned" => self.end_reply(&returned(data)),
            "run.waiting" => self.end_reply(&waiting(data)),
            Event::ENDED => self.ended(event.result()),
            Event::FAILED => {
                self.end_reply(&format!("the run failed ({}): {}\n", data["status"], reason(data)))
            }
            _ => String::new(),
        }
    }

    /// A line of its own, whatever was written last.
    fn end_reply(&mut self, line: &str) -> String {
        let end = if std::mem::take(&mut self.in_reply) { "\n" } else { "" };
        format!("{end}{line}")
    }

    fn ended(&mut self, result: &Value) -> String {
        let mut text = self.end_reply("");
        // A kept result has no replies.
        if !self.showed_text {
            let _ = writeln!(text, "{}", plain(result["output"].as_str().unwrap_or_default()));
        }
        if result["stopReason"] != "completed" {
            let _ = writeln!(
                text,
                "· the run ended early: {}",
                shown(result["stopReason"].as_str().unwrap_or_default(), NAME_CHARS)
            );
        }
        text
    }
}

fn progressed(data: &Value) -> String {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let share = data["fraction"].as_f64().map(|share| format!(" {:.0} %", share * 100.0));
    let share = share.unwrap_or_default();
    let (name, message) = (shown(text("name"), NAME_CHARS), shown(text("message"), CONTENT_CHARS));
    let message = if message.is_empty() { message } else { format!(": {message}") };
    format!("· {name} …{share}{message}\n")
}

fn returned(data: &Value) -> String {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let (name, outcome) = (shown(text("name"), NAME_CHARS), shown(text("outcome"), NAME_CHARS));
    let took = data["durationMs"].as_f64().unwrap_or_default();
    let said = match text("outcome") {
        "ok" => String::new(),
        _ => format!(": {}", shown(text("content"), CONTENT_CHARS)),
    };
    format!("· {name}: {outcome} in {took:.0} ms{said}\n")
}

/// A line for each thing that the run waits for, with the command and the path that show it.
fn waiting(data: &Value) -> String {
    let mut text = String::new();
    for wait in data["waits"].as_array().into_iter().flatten() {
        let field = |name: &str| shown(wait[name].as_str().unwrap_or_default(), NAME_CHARS);
        let (id, tool) = (field("waitId"), field("tool"));
        let what = match wait["kind"].as_str().unwrap_or_default() {
            "approval" => format!("an approval of {tool}"),
            "question" => format!("an answer to {tool}"),
            "timer" => "a time to come".to_owned(),
            "event" => "an event".to_owned(),
            "child" => "the end of a run that it began".to_owned(),
            _ => tool,
        };
        let _ = writeln!(
            text,
            "· the run waits for {what}: agent-host waits show {id}, or /api/agent/waits/{id}"
        );
    }
    text + "· it goes on here within a minute after that; Ctrl-C cancels it\n"
}

fn reason(data: &Value) -> String {
    let said = data["body"]["error"].as_str().or(data["body"]["message"].as_str());
    shown(said.unwrap_or("no reason given"), CONTENT_CHARS)
}

fn as_json(event: &Event) -> String {
    let mut line = json!({ "event": event.name, "data": event.data });
    if let Some(id) = &event.id {
        line["id"] = json!(id);
    }
    json_line(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(events: &[(&str, Value)]) -> String {
        let mut screen = Screen::new(false);
        let event =
            |(name, data): &(&str, Value)| Event { name: (*name).into(), id: None, data: data.clone() };
        events.iter().map(|each| screen.text_of(&event(each))).collect()
    }

    #[test]
    fn a_run_is_written_as_it_goes_on() {
        let written = written(&[
            ("run.started", json!({ "runId": "r", "model": "m" })),
            ("model.delta", json!({ "text": "let me " })),
            ("model.delta", json!({ "text": "see" })),
            ("model.replied", json!({ "content": "let me see" })),
            ("tool.started", json!({ "name": "calculate" })),
            ("tool.progress", json!({ "name": "calculate", "message": "half\u{1b}[2J", "fraction": 0.5 })),
            ("tool.progress", json!({ "name": "calculate", "message": "" })),
            (
                "tool.returned",
                json!({ "name": "calculate", "outcome": "ok", "durationMs": 3.4, "content": "42" }),
            ),
            (
                "tool.returned",
                json!({ "name": "clock", "outcome": "timeout", "durationMs": 900, "content": "too slow" }),
            ),
            ("model.delta", json!({ "text": "4" })),
            ("model.delta", json!({ "reset": true })),
            ("model.delta", json!({ "text": "42" })),
            ("model.replied", json!({ "content": "42" })),
            ("run.ended", json!({ "result": { "output": "42", "stopReason": "completed" } })),
        ]);
        let expected = "let me see\n· calculate …\n· calculate … 50 %: half\\u{1b}[2J\n· calculate …\n· calculate: ok in 3 ms\n· clock: timeout in 900 ms: too slow\n4\n… that reply was \
                        broken off; again:\n42\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn what_a_run_waits_for_is_written_with_what_shows_it() {
        let wait = |kind: &str, id: &str| json!({ "waitId": id, "kind": kind, "tool": "pay\u{1b}" });
        let waits = json!({ "waits": [wait("approval", "7:1.0"), wait("timer", "7:1.1")] });
        let expected = "so\n· the run waits for an approval of pay\\u{1b}: agent-host waits show 7:1.0, or /api/agent/waits/7:1.0\n\
                        · the run waits for a time to come: agent-host waits show 7:1.1, or /api/agent/waits/7:1.1\n\
                        · it goes on here within a minute after that; Ctrl-C cancels it\n";
        assert_eq!(written(&[("model.delta", json!({ "text": "so" })), ("run.waiting", waits)]), expected);
    }

    #[test]
    fn what_had_no_deltas_is_written_whole_and_an_early_end_is_said() {
        let replied = ("model.replied", json!({ "content": "hi" }));
        let ended = |reason: &str| ("run.ended", json!({ "output": "hi", "stopReason": reason }));
        assert_eq!(written(&[replied, ended("completed")]), "hi\n");
        assert_eq!(written(&[ended("completed")]), "hi\n");
        assert_eq!(written(&[ended("cancelled")]), "hi\n· the run ended early: cancelled\n");
        let failed = ("run.failed", json!({ "status": 504, "body": { "error": "Gateway timeout" } }));
        assert_eq!(written(&[failed]), "the run failed (504): Gateway timeout\n");
    }

    #[test]
    fn no_text_steers_the_terminal() {
        let hostile = "\u{1b}[2J\u{202e}abc\u{7}\r\ndone";
        let written = written(&[("model.delta", json!({ "text": hostile }))]);
        assert_eq!(written, "\\u{1b}[2J\\u{202e}abc\\u{7}\\r\ndone");
    }
}
