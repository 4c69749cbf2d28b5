//! A run as the chunks of a chat completion: `data: {…}`, and `data: [DONE]` at the end.
//!
//! A chunk has words of the agent. While a reply is written nobody knows whether tool calls follow it, so the
//! words of all replies are sent, with a blank line between two of them. Calls of the agent's own tools have
//! no chunks: the `tool_calls` of a chunk are for the client to carry out.

use agent_core::words::Event;
use run_service::layers::RunAnswer;
use run_service::live::Delta;
use serde_json::{Value, json};

use super::super::head::Head;
use super::super::models;
use super::super::run::final_words::{refusal, words};
use super::super::run::sent_text::{Say, SentText};
use super::super::run::stream::WriteRun;
use super::completion::{ChatToolCall, ChatUsage, finish_reason, id_of, tool_calls};

/// Between two replies.
const BLANK_LINE: &str = "\n\n";

/// Writes the chunks of one completion.
pub(crate) struct ChatChunks {
    id: String,
    created: u64,
    include_usage: bool,
    /// Whether only the last reply is said, as the JSON that the client wants.
    is_formatted: bool,
    reply: SentText,
    /// Whether any words were sent.
    has_spoken: bool,
    /// Whether any reply is over.
    has_replied: bool,
}

impl ChatChunks {
    pub(crate) fn new(head: &Head, include_usage: bool, is_formatted: bool) -> Self {
        Self {
            id: id_of(head),
            created: head.created,
            include_usage,
            is_formatted,
            reply: SentText::default(),
            has_spoken: false,
            has_replied: false,
        }
    }

    fn chunk(&self, out: &mut String, choices: &Value, usage: Option<ChatUsage>) {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": models::AGENT,
            "choices": choices,
        });
        if let (true, Value::Object(fields)) = (self.include_usage, &mut chunk) {
            fields.insert("usage".to_owned(), json!(usage));
        }
        data(out, &chunk.to_string());
    }

    fn choice(&self, out: &mut String, delta: &Value, finish_reason: Option<&str>) {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
        self.chunk(out, &json!([choice]), None);
    }

    fn say(&mut self, out: &mut String, was_silent: bool, say: Say) {
        let text = match say {
            Say::Nothing => return,
            // The first words of a reply after another one.
            Say::More(text) if was_silent && self.has_spoken => format!("{BLANK_LINE}{text}"),
            Say::More(text) => text,
            Say::Anew(text) => format!("{BLANK_LINE}{text}"),
        };
        self.has_spoken = true;
        self.choice(out, &json!({ "content": text }), None);
    }
}

impl WriteRun for ChatChunks {
    fn begin(&mut self, out: &mut String) {
        self.choice(out, &json!({ "role": "assistant", "content": "" }), None);
    }

    fn delta(&mut self, out: &mut String, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                let was_silent = self.reply.as_str().is_empty();
                let say = self.reply.push(text);
                self.say(out, was_silent, say);
            }
            Delta::Reset => self.reply.reset(),
        }
    }

    fn event(&mut self, out: &mut String, event: &Event) {
        let Event::ModelReplied { reply, .. } = event else { return };
        if self.is_formatted {
            return;
        }
        let was_silent = self.reply.as_str().is_empty();
        let say = self.reply.finish(&reply.content);
        self.say(out, was_silent, say);
        self.reply.clear();
        self.has_replied = true;
    }

    fn ended(&mut self, out: &mut String, answer: &RunAnswer) {
        let result = &answer.result;
        // One that was kept has no events.
        let words = words(result, self.is_formatted).filter(|words| !self.has_replied && !words.is_empty());
        if let Some(refusal) = refusal(result, self.is_formatted) {
            self.choice(out, &json!({ "refusal": refusal }), None);
        } else if let Some(words) = words {
            self.say(out, false, Say::More(words.to_owned()));
        }
        let calls: Vec<_> =
            tool_calls(result).iter().enumerate().map(|(index, call)| indexed(index, call)).collect();
        if !calls.is_empty() {
            self.choice(out, &json!({ "tool_calls": calls }), None);
        }
        self.choice(out, &json!({}), Some(finish_reason(result)));
        if self.include_usage {
            self.chunk(out, &json!([]), Some(result.usage.into()));
        }
        data(out, "[DONE]");
    }

    fn failed(&mut self, out: &mut String, error: &Value) {
        data(out, &error.to_string());
    }
}

/// A call with its place, by which clients put its pieces together: here it is one piece.
fn indexed(index: usize, call: &ChatToolCall<'_>) -> Value {
    let mut call = json!(call);
    call["index"] = index.into();
    call
}

/// JSON on one line has no line breaks.
fn data(out: &mut String, data: &str) {
    out.push_str("data: ");
    out.push_str(data);
    out.push_str("\n\n");
}
