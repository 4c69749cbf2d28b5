//! How an event is stored: as JSON with the version that a reader must know.
//!
//! ```text
//! {"event": "cancelled"}                       version 1, which is not written
//! {"event": "tool_started", "v": 2, …}
//! ```
//!
//! An event carries the lowest version that knows its kind and its members, so a rolling update to a newer
//! program stops older processes only at runs that really hold something new. Programs up to version 6 look
//! at the version of those events only whose kind they do not know. What is not understood for any other
//! reason is damaged.

use json_schema::PRIVATE_NAMES;
use serde::{Deserialize, Serialize};

use crate::ports::JournalError;
use crate::ports::JournalResult;
use crate::words::{Event, Task, Verdict};

/// The highest version of an event that this program reads and writes.
pub const VERSION: u32 = 7;

/// The version of journals that do not say one.
const FIRST_VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    event: &'a Event,
    #[serde(rename = "v", skip_serializing_if = "is_first")]
    version: u32,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "v", default = "first")]
    version: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(version: &u32) -> bool {
    *version == FIRST_VERSION
}

fn first() -> u32 {
    FIRST_VERSION
}

/// The lowest version of this program that understands an event. A new value of an enum within an event needs
/// a version as well: older programs take the event for damage.
pub fn version_of(event: &Event) -> u32 {
    match event {
        // Older programs know no child runs: one would have the tokens of any other.
        Event::Started { task, .. } if task.parent.is_some() => 7,
        Event::Waiting { waits, .. } if waits.iter().any(|wait| wait.child.is_some()) => 7,
        Event::Decided { decision, .. } if matches!(decision.verdict, Verdict::Ended { .. }) => 7,
        started if has_given_call(started) => 7,
        // Older programs would make such a call once more, or take it for one that was interrupted.
        Event::RecordingStarted { .. } | Event::NestedReturned { recorded: Some(_), .. } => 7,
        Event::Waiting { waits, .. } if waits.iter().any(|wait| wait.within.is_some()) => 7,
        // Older programs would end the run with whatever the model says.
        Event::Started { task, .. } if !task.options.rules.are_none() => 6,
        Event::ModelReplied { output_fault: Some(_), .. } => 6,
        Event::Waiting { .. } | Event::Decided { .. } => 5,
        // Older programs take content that is no text for damage.
        Event::Started { task, .. } if has_images(task) => 4,
        Event::NestedStarted { .. } | Event::NestedReturned { .. } => 3,
        Event::ToolsStarted { .. } => 2,
        Event::Started { .. }
        | Event::ModelReplied { .. }
        | Event::ToolReturned { .. }
        | Event::Cancelled
        | Event::TakenUp { .. }
        | Event::HandedBack => FIRST_VERSION,
    }
}

/// The name of the first event, as an older program knows it and as it does not: one that read the start of a
/// run of one call would pass over the call, and ask a model.
const STARTED: &str = r#"{"event":"started","#;
const CALLED: &str = r#"{"event":"called","#;

fn has_given_call(event: &Event) -> bool {
    matches!(event, Event::Started { task, .. } if task.options.call.is_some())
}

fn has_images(task: &Task) -> bool {
    task.options.history.iter().any(|message| message.images() > 0)
}

/// More levels than these are read once before they are written. What is around a value of at most 100 levels
/// has a few more, and `serde_json` reads 127.
const LEVELS: usize = 110;

/// Whether an event may be one that is not read as it was written.
fn is_doubtful(text: &str) -> bool {
    text.contains(PRIVATE_NAMES) || levels(text) > LEVELS
}

/// How deep a JSON text is nested.
fn levels(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_in_text) = (0_usize, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_in_text = !is_in_text,
            // Only texts have escapes.
            b'\\' => {
                bytes.next();
            }
            b'{' | b'[' if !is_in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An event as JSON text. One that could not be read again is refused.
pub fn encode(event: &Event) -> JournalResult<String> {
    let version = version_of(event);
    // Flattening costs a copy of the event, which only what needs it pays for.
    let text = if version == FIRST_VERSION {
        serde_json::to_string(event)
    } else {
        serde_json::to_string(&Written { event, version })
    };
    let text = text.map_err(|error| JournalError::Damaged {
        detail: format!("an event cannot be written as JSON: {error}"),
    })?;
    let text = if has_given_call(event) { text.replacen(STARTED, CALLED, 1) } else { text };
    if is_doubtful(&text) && decode("", 0, &text).as_ref() != Ok(event) {
        let detail =
            "an event is nested too deeply to be read again, or has a name that is not read".to_owned();
        return Err(JournalError::Damaged { detail });
    }
    Ok(text)
}

/// The event that [`encode`] wrote. `run_id` and `sequence` name it in errors.
pub fn decode(run_id: &str, sequence: u64, text: &str) -> JournalResult<Event> {
    // The error's text may quote what was said in the run.
    let damaged = |error: serde_json::Error| {
        let column = error.column();
        let detail = format!("event {sequence} of run {run_id} cannot be read (at column {column})");
        JournalError::Damaged { detail }
    };
    // Before the event: members of it that this program does not know would be passed over.
    if text.contains(r#""v""#) {
        let Head { version } = serde_json::from_str(text).map_err(damaged)?;
        if version > VERSION {
            return Err(JournalError::Newer { run_id: run_id.to_owned(), sequence, version, known: VERSION });
        }
    }
    serde_json::from_str(text).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{says, shown, task, wait};
    use crate::words::{
        ContentPart, Decision, Image, ImageDetail, Message, ModelReply, Options, Principal, RecordedAnswer,
        ReplyRules, ToolCall, ToolOutcome, ToolReceipt, UserContent, Wait, WaitKind, may_be_journaled,
    };

    #[test]
    fn an_event_is_read_as_it_was_written_and_carries_the_version_it_needs() {
        for (event, text) in [
            (Event::Cancelled, r#"{"event":"cancelled"}"#),
            (
                Event::ToolsStarted { indexes: vec![0, 2] },
                r#"{"event":"tools_started","indexes":[0,2],"v":2}"#,
            ),
            (
                Event::NestedStarted { index: 0, number: 2, name: "pay".into() },
                r#"{"event":"nested_started","index":0,"number":2,"name":"pay","v":3}"#,
            ),
            (
                Event::NestedReturned {
                    index: 1,
                    number: 0,
                    receipt: ToolReceipt { duration_ms: 0.1, ..ToolReceipt::new("pay", ToolOutcome::Failed) },
                    error: Some("Error: no".into()),
                    recorded: None,
                },
                r#"{"event":"nested_returned","index":1,"number":0,"receipt":{"name":"pay","durationMs":0.1,"outcome":"failed"},"error":"Error: no","v":3}"#,
            ),
            (
                Event::RecordingStarted { index: 1, at: 7, seed: "s".into() },
                r#"{"event":"recording_started","index":1,"at":7,"seed":"s","v":7}"#,
            ),
            (
                Event::NestedReturned {
                    index: 1,
                    number: 0,
                    receipt: ToolReceipt { duration_ms: 0.1, ..ToolReceipt::new("look", ToolOutcome::Ok) },
                    error: None,
                    recorded: Some(Box::new(RecordedAnswer {
                        asked: "sha256:1".into(),
                        arguments: "{}".into(),
                        content: "1".into(),
                        at: 8,
                    })),
                },
                r#"{"event":"nested_returned","index":1,"number":0,"receipt":{"name":"look","durationMs":0.1,"outcome":"ok"},"recorded":{"asked":"sha256:1","arguments":"{}","content":"1","at":8},"v":7}"#,
            ),
        ] {
            assert_eq!(encode(&event).unwrap(), text);
            assert_eq!(decode("run_1", 0, text).unwrap(), event);
        }
    }

    #[test]
    fn a_run_with_images_is_of_a_version_of_its_own_and_one_without_is_written_as_ever() {
        let started = |content: UserContent| {
            let options = Options { history: vec![Message::User { content }], ..Options::default() };
            let task = Task { options, principal: Principal::default(), ..task("") };
            Event::Started { task, tools: "t".into() }
        };
        let around = |content: &str, version: &str| {
            format!(
                concat!(
                    r#"{{"event":"started","task":{{"id":"run_1","input":"","options":{{"history":["#,
                    r#"{{"role":"user","content":{}}}]}},"limits":{{"iterations":10,"tokens":10000}},"#,
                    r#""model":"test/scripted"}},"tools":"t"{}}}"#,
                ),
                content, version
            )
        };
        let image = Image::new("data:image/png;base64,AAAA", Some(ImageDetail::High)).unwrap();
        let written = r#"[{"type":"text","text":"a"},{"type":"image","url":"data:image/png;base64,AAAA","detail":"high"}]"#;
        let parts = vec![ContentPart::Text { text: "a".into() }, ContentPart::Image(image)];
        for (content, written, version) in
            [("a".into(), r#""a""#, ""), (UserContent::of_parts(parts), written, r#","v":4"#)]
        {
            let (event, text) = (started(content), around(written, version));
            assert_eq!(encode(&event).unwrap(), text);
            assert_eq!(decode("run_1", 0, &text).unwrap(), event);
        }
    }

    #[test]
    fn a_run_whose_replies_keep_to_something_is_left_alone_by_programs_that_would_not_see_to_it() {
        let rules = ReplyRules { one_call: true, ..ReplyRules::default() };
        let options = Options { rules, ..Options::default() };
        let started = Event::Started { task: Task { options, ..task("hi") }, tools: "t".into() };
        let fault = Some("The reply is not JSON.".to_owned());
        let replied = Event::ModelReplied {
            reply: says("3"),
            input_tokens: Some(1),
            last_by: None,
            output_fault: fault,
        };
        for event in [started, replied] {
            let text = encode(&event).unwrap();
            assert!(text.ends_with(r#""v":6}"#), "{text}");
            assert_eq!(decode("run_1", 0, &text).unwrap(), event);
        }
    }

    #[test]
    fn a_run_of_one_call_is_left_alone_by_programs_that_would_ask_a_model() {
        let call = ToolCall { id: "c".into(), name: "pay".into(), arguments: json!({}) };
        let options = Options { call: Some(call), ..Options::default() };
        let started = Event::Started { task: Task { options, ..task("") }, tools: "t".into() };
        let text = encode(&started).unwrap();
        // Under another name: such programs look at the version of an event only when they do not know it.
        assert!(text.starts_with(r#"{"event":"called","task""#) && text.ends_with(r#""v":7}"#), "{text}");
        assert_eq!(decode("run_1", 0, &text).unwrap(), started);
    }

    /// An event of each kind that holds a value of strangers, with this one.
    fn events_with(value: &Value) -> [Event; 5] {
        let call = || ToolCall { id: "c".into(), name: "t".into(), arguments: value.clone() };
        let history = vec![Message::Assistant { content: String::new(), tool_calls: vec![call()] }];
        let options = Options { history, call: Some(call()), ..Options::default() };
        let wait = wait("1:1.0", WaitKind::Question, shown(value.clone()));
        let wait = Wait { answer: Some(value.clone()), ..wait };
        let decided = |verdict| {
            let (shown, nonce) = (String::new(), String::new());
            let decision = Decision { by: None, at: 1, shown, verdict, nonce };
            Event::Decided { wait: "1:1.0".into(), decision }
        };
        [
            ModelReply { tool_calls: vec![call()], ..says("") }.into(),
            Event::Started { task: Task { options, ..task("") }, tools: "t".into() },
            Event::Waiting { waits: vec![wait], epoch: 1 },
            decided(Verdict::Edit { arguments: value.clone() }),
            decided(Verdict::Answer { answer: value.clone() }),
        ]
    }

    #[test]
    fn whatever_strangers_say_is_read_as_it_was_written_or_is_not_written() {
        const RAW: &str = "$serde_json::private::RawValue";
        let nested = |levels| (1..levels).fold(json!({}), |inner, _| json!([inner]));
        let mut values: Vec<Value> = (90..135).map(nested).collect();
        let named = |name: &str, value: Value| json!({ "question": "?", name: value });
        values.extend([named("schema", json!({})), named("text", json!(RAW)), named("v", json!(99))]);
        values.extend([json!(0), json!("[1]"), json!({})].map(|value| named(RAW, value)));
        values.push(json!([{ "a": named("$serde_json::private::Number", json!("1")) }]));
        for value in values {
            for event in events_with(&value) {
                match encode(&event) {
                    Ok(text) => assert_eq!(decode("run_1", 0, &text), Ok(event)),
                    Err(error) => {
                        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
                        assert!(!may_be_journaled(&value), "{value}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_event_of_a_newer_program_is_told_from_a_damaged_one() {
        let newer = JournalError::Newer { run_id: "run_1".into(), sequence: 4, version: 99, known: VERSION };
        for text in [
            r#"{"event":"slept","v":99,"until":{"a":1}}"#,
            // Known but for what this program would pass over.
            r#"{"event":"cancelled","by":"somebody","v":99}"#,
            r#"{"v":99,"event":"handed_back"}"#,
        ] {
            assert_eq!(decode("run_1", 4, text), Err(newer.clone()), "{text}");
        }
        for text in [r#"{"event":"slept"}"#, r#"{"event":"slept","v":2}"#, r#"{"event":"canc"#, "", "[]"] {
            let error = decode("run_1", 4, text).unwrap_err();
            assert!(matches!(error, JournalError::Damaged { .. }), "{text}: {error}");
        }
    }
}
