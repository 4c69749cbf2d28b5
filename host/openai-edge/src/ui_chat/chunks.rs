//! A run as a UI message stream of the Vercel AI SDK: `data: {"type": …}`, and `data: [DONE]` at the end.
//!
//! A reply of the model with the answers of its tools is a step. Tools are `dynamic-tool`s that the provider
//! carries out: that is what the SDK calls tools which the client's code neither knows nor calls.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::{AgentResult, Event, StopReason, ToolCall, ToolOutcome, Verdict};
use json_schema::MemoryBudget;
use run_service::layers::RunAnswer;
use run_service::live::Delta;
use serde_json::{Value, json};

use super::super::head::Head;
use super::super::run::paused::Paused;
use super::super::run::sent_text::{Say, SentText};
use super::super::run::stream::WriteRun;

/// Writes the chunks of one message.
pub(crate) struct UiChunks {
    id: String,
    /// Names the message that is written.
    message_id: String,
    reply: SentText,
    /// How many texts were begun, and whether the last of them goes on.
    texts: usize,
    is_speaking: bool,
    is_in_step: bool,
    /// Whether any reply is over.
    has_replied: bool,
    /// Ids of the last reply's calls, in its order, until they are answered.
    calls: Vec<String>,
    /// Which of them each wait is about, and which somebody has rejected.
    waits: BTreeMap<String, usize>,
    denied: BTreeSet<usize>,
    /// What the client has answered of that which the message shows as calls of their own.
    answered: Vec<HiddenAnswer>,
}

/// The answer to an approval request about what a call has come to in its middle, or a child run.
#[derive(Debug, PartialEq)]
pub(crate) struct HiddenAnswer {
    /// Id of the request, and of the call that stands for it.
    pub(crate) id: String,
    pub(crate) is_allowed: bool,
}

/// The output that such a call has: what the tool answers is told to who called it.
const ALLOWED: &str = "Allowed.";

impl UiChunks {
    pub(crate) fn new(head: &Head) -> Self {
        Self {
            id: head.id.clone(),
            message_id: format!("msg_{}", head.id),
            reply: SentText::default(),
            texts: 0,
            is_speaking: false,
            is_in_step: false,
            has_replied: false,
            calls: Vec::new(),
            waits: BTreeMap::new(),
            denied: BTreeSet::new(),
            answered: Vec::new(),
        }
    }

    /// Goes on with a message of that name, in which these events were shown, and with these answers.
    pub(crate) fn behind(message_id: String, shown: &[Event], answered: Vec<HiddenAnswer>) -> Self {
        let head = Head { id: message_id.clone(), created: 0 };
        let mut chunks = Self { message_id, answered, ..Self::new(&head) };
        let mut told_already = String::new();
        shown.iter().for_each(|event| chunks.event(&mut told_already, event));
        chunks.is_in_step = false;
        chunks
    }

    fn begin_step(&mut self, out: &mut String) {
        if !self.is_in_step {
            write(out, &json!({ "type": "start-step" }));
        }
        self.is_in_step = true;
    }

    fn end_step(&mut self, out: &mut String) {
        self.end_text(out);
        if std::mem::take(&mut self.is_in_step) {
            write(out, &json!({ "type": "finish-step" }));
        }
    }

    fn text_id(&self) -> String {
        format!("text_{}_{}", self.id, self.texts)
    }

    fn say(&mut self, out: &mut String, say: Say) {
        let text = match say {
            Say::Nothing => return,
            Say::More(text) => text,
            Say::Anew(text) => {
                // The words that were sent stay what they are.
                self.end_text(out);
                text
            }
        };
        self.begin_step(out);
        if !self.is_speaking {
            self.texts += 1;
            write(out, &json!({ "type": "text-start", "id": self.text_id() }));
        }
        self.is_speaking = true;
        write(out, &json!({ "type": "text-delta", "id": self.text_id(), "delta": text }));
    }

    fn end_text(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_speaking) {
            write(out, &json!({ "type": "text-end", "id": self.text_id() }));
        }
    }

    fn call(&mut self, out: &mut String, call: &ToolCall) {
        self.begin_step(out);
        self.write_call(out, &call.id, &call.name, &call.arguments);
        self.calls.push(call.id.clone());
    }

    fn write_call(&self, out: &mut String, id: &str, name: &str, arguments: &Value) {
        write(
            out,
            &json!({
                "type": "tool-input-available", "toolCallId": id, "toolName": name, "input": arguments,
                "dynamic": true, "providerExecuted": true,
            }),
        );
    }

    fn answer(&mut self, out: &mut String, index: usize, content: &str, succeeded: bool) {
        let Some(id) = self.take_call(index) else { return };
        if self.denied.contains(&index) {
            return write(out, &json!({ "type": "tool-output-denied", "toolCallId": id }));
        }
        let mut chunk = json!({ "toolCallId": id, "dynamic": true, "providerExecuted": true });
        if succeeded {
            // An answer is JSON mostly, which the client shows as what it is.
            chunk["type"] = "tool-output-available".into();
            chunk["output"] = read(content).unwrap_or_else(|| content.into());
        } else {
            chunk["type"] = "tool-output-error".into();
            chunk["errorText"] = content.into();
        }
        write(out, &chunk);
    }

    /// The id of a call that is not answered yet, once.
    fn take_call(&mut self, index: usize) -> Option<String> {
        self.calls.get_mut(index).map(std::mem::take).filter(|id| !id.is_empty())
    }

    /// The end of a run whose result this is.
    fn finish(&mut self, out: &mut String, result: &AgentResult) {
        for index in 0..self.calls.len() {
            self.answer(out, index, "The call was not answered.", false);
        }
        self.end_step(out);
        let usage = json!({
            "inputTokens": result.usage.input_tokens, "outputTokens": result.usage.output_tokens,
            "totalTokens": result.usage.total(),
        });
        write(
            out,
            &json!({
                "type": "finish", "finishReason": finish_reason(result.stop_reason),
                "messageMetadata": { "runId": result.id, "usage": usage },
            }),
        );
        out.push_str("data: [DONE]\n\n");
    }
}

impl WriteRun for UiChunks {
    fn begin(&mut self, out: &mut String) {
        write(out, &json!({ "type": "start", "messageId": self.message_id }));
        for HiddenAnswer { id, is_allowed } in std::mem::take(&mut self.answered) {
            if is_allowed {
                write(
                    out,
                    &json!({
                        "type": "tool-output-available", "toolCallId": id, "output": ALLOWED, "dynamic": true,
                        "providerExecuted": true,
                    }),
                );
            } else {
                write(out, &json!({ "type": "tool-output-denied", "toolCallId": id }));
            }
        }
    }

    fn delta(&mut self, out: &mut String, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                if self.reply.as_str().is_empty() && self.has_replied && !self.is_speaking {
                    self.end_step(out);
                }
                let say = self.reply.push(text);
                self.say(out, say);
            }
            Delta::Reset => self.reply.reset(),
        }
    }

    fn event(&mut self, out: &mut String, event: &Event) {
        match event {
            Event::ModelReplied { reply, .. } => {
                if self.reply.as_str().is_empty() {
                    self.end_step(out);
                }
                let say = self.reply.finish(&reply.content);
                self.say(out, say);
                self.end_text(out);
                self.reply.clear();
                self.has_replied = true;
                self.calls.clear();
                self.waits.clear();
                self.denied.clear();
                reply.tool_calls.iter().for_each(|call| self.call(out, call));
            }
            Event::ToolReturned { index, answer } => {
                self.answer(out, *index, &answer.content, answer.receipt.outcome == ToolOutcome::Ok);
            }
            Event::Waiting { waits, .. } => {
                // What a call waits for in its middle is denied to its tool, and the call goes on.
                let of_calls = waits.iter().filter(|wait| wait.within.is_none());
                self.waits.extend(of_calls.map(|wait| (wait.id.clone(), wait.index)));
            }
            Event::Decided { wait, decision } => {
                let index =
                    self.waits.get(wait).filter(|_| matches!(decision.verdict, Verdict::Reject { .. }));
                self.denied.extend(index);
            }
            _ => {}
        }
    }

    fn pause(&mut self, out: &mut String, paused: &Paused) -> Option<Value> {
        let ask = |out: &mut String, approval: &str, call: &str| {
            write(
                out,
                &json!({ "type": "tool-approval-request", "approvalId": approval, "toolCallId": call }),
            );
        };
        let mut is_asked = false;
        for request in &paused.requests {
            let Some(id) = request.index.and_then(|index| self.take_call(index)) else { continue };
            is_asked = true;
            ask(out, &request.id.to_string(), &id);
        }
        // What calls have come to in their middle, and child runs, is a step of its own: clients go on with a
        // message when everything in its last step is answered. Behind other requests it is asked later.
        let hidden = paused.requests.iter().filter(|request| request.index.is_none() && !is_asked);
        for (number, request) in hidden.enumerate() {
            if number == 0 {
                self.end_step(out);
                self.begin_step(out);
            }
            let id = request.id.to_string();
            self.write_call(out, &id, &request.name, &request.arguments);
            ask(out, &id, &id);
        }
        // Calls that come behind those are made when the run goes on.
        self.calls.clear();
        if let Some(sentence) = &paused.beside {
            self.say(out, Say::More(sentence.clone()));
        }
        Some(Value::Null)
    }

    fn ended(&mut self, out: &mut String, answer: &RunAnswer) {
        // One that was kept has no events.
        if !self.has_replied && !answer.result.output.is_empty() {
            self.say(out, Say::More(answer.result.output.clone()));
        }
        self.finish(out, &answer.result);
    }

    fn failed(&mut self, out: &mut String, error: &Value) {
        self.end_step(out);
        let text = error.pointer("/error/message").and_then(Value::as_str).unwrap_or("The run failed");
        write(out, &json!({ "type": "error", "errorText": text }));
        out.push_str("data: [DONE]\n\n");
    }
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Completed | StopReason::EmptyReply => "stop",
        StopReason::ContentFilter => "content-filter",
        StopReason::ToolCalls => "tool-calls",
        StopReason::MaxTokens | StopReason::TokenBudget | StopReason::MaxIterations => "length",
        StopReason::InvalidOutput => "error",
        StopReason::Cancelled => "other",
    }
}

/// JSON of a tool, unless it takes more memory than a message of a stranger may.
fn read(content: &str) -> Option<Value> {
    MemoryBudget::default().read(content.as_bytes()).ok()
}

/// JSON on one line has no line breaks.
fn write(out: &mut String, chunk: &Value) {
    out.push_str("data: ");
    out.push_str(&chunk.to_string());
    out.push_str("\n\n");
}
