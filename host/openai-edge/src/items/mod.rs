//! The output of a response: what the agent said and called, as items, and the events by which a reader sees
//! them come to be.
//!
//! A tool call is an item of the type `mcp_call`. That is what the public Responses API has for a tool with a
//! name, arguments and an answer of its own that the *server* calls: clients show it and do nothing. A
//! `function_call` would be for the client to carry out and to answer. `server_label` is the same for all
//! tools: `agent`.
//!
//! Functions of the client are `function_call`s, which it carries out.
//!
//! A call that waits for an approval is no call yet but an `mcp_approval_request` (`approvals`). Which calls
//! of a reply wait is known with what comes behind the reply, so its calls are held until then.
//!
//! The same steps make the output of a response that is not streamed, whose events nobody reads
//! ([`Items::take`]).

#[cfg(test)]
mod tests;

pub(super) mod pages;
pub(super) mod turn_items;

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::{AgentResult, Message, StopReason, ToolCall, ToolOutcome};
use serde_json::{Value, json};

use super::input::functions::arguments_text;
use super::models;
use super::run::final_words::words;
use super::run::sent_text::{Say, SentText};

/// What stands for the answer of a call that has none.
pub(super) const UNANSWERED: &str = "The call was not answered.";

/// An event without its number: type and fields.
pub(super) type Event = (&'static str, Value);

/// The items so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Names the response; ids of items are made of it.
    id: String,
    /// Names of the functions that the client carries out.
    functions: BTreeSet<String>,
    /// Whether the output is the only thing said, as the JSON that the client wants.
    is_formatted: bool,
    items: Vec<Value>,
    events: Vec<Event>,
    /// The words of the reply that is being written.
    reply: SentText,
    /// Where its message is among the items, once it has said something.
    message: Option<usize>,
    /// The calls of the last reply, in its order, that are the agent's and not answered: where each is among
    /// the items.
    open: Vec<Option<usize>>,
    /// Which of the last reply's calls are the agent's, in its order.
    own: Vec<usize>,
    /// The calls of the last reply of which there is no item yet, by their place in it.
    held: BTreeMap<usize, ToolCall>,
    /// Calls of which there is one, until they are answered.
    begun: BTreeMap<usize, ToolCall>,
    /// Whether calls of the last reply wait for somebody: then each has an item once it is made.
    waits: bool,
    /// The approval requests that the client has answered, by the place of their calls.
    approved: BTreeMap<usize, String>,
}

impl Items {
    pub(super) fn new(id: &str, functions: BTreeSet<String>, is_formatted: bool) -> Self {
        Self { id: id.to_owned(), functions, is_formatted, ..Self::default() }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Value] {
        &self.items
    }

    /// What happened since this was asked last.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes in a whole run.
    pub(super) fn take(&mut self, result: &AgentResult) {
        let mut receipts = result.tool_calls.iter();
        let mut answered = 0;
        let is_reply = |message: &Message| matches!(message, Message::Assistant { .. });
        let last = result.messages.iter().rposition(is_reply);
        for (index, message) in result.messages.iter().enumerate() {
            match message {
                Message::Assistant { content, tool_calls } => {
                    self.replied(content, tool_calls);
                    if last == Some(index) && result.stop_reason != StopReason::ToolCalls {
                        self.leave_out_functions();
                    }
                    answered = 0;
                }
                Message::Tool { content, .. } => {
                    let succeeded = receipts.next().is_some_and(|receipt| receipt.outcome == ToolOutcome::Ok);
                    if let Some(index) = self.own.get(answered).copied() {
                        self.returned(index, content, succeeded);
                    }
                    answered += 1;
                }
                Message::System { .. } | Message::User { .. } => {}
            }
        }
        self.begin_held();
        self.say_output(result);
    }

    /// Says the output of a run that says nothing else.
    fn say_output(&mut self, result: &AgentResult) {
        let output = words(result, true).filter(|output| self.is_formatted && !output.is_empty());
        if let Some(output) = output {
            self.write(output);
            self.close_message("completed");
        }
    }

    /// Leaves out of the output what there is of it: another response has shown that, and this one goes on
    /// behind it, where the client has answered these approval requests.
    pub(super) fn shown_before(&mut self, approved: BTreeMap<usize, String>) {
        self.items.clear();
        self.events.clear();
        self.suspend();
        self.events.clear();
        self.approved = approved;
    }

    /// The run waits: calls under way have come to what it waits for. In this output they are incomplete, and
    /// what is shown behind it has them anew.
    pub(super) fn suspend(&mut self) {
        for (index, call) in std::mem::take(&mut self.begun) {
            if let Some(place) = self.open.get_mut(index).and_then(Option::take)
                && let Some(item) = self.items.get_mut(place)
            {
                item["status"] = "incomplete".into();
                let done = json!({ "output_index": place, "item": item });
                self.events.push(("response.output_item.done", done));
            }
            self.held.insert(index, call);
        }
    }

    /// More words of the reply.
    pub(super) fn delta(&mut self, text: &str) {
        let say = self.reply.push(text);
        self.say(say);
    }

    /// The reply broke off and is written again.
    pub(super) fn reset(&mut self) {
        self.reply.reset();
    }

    /// The reply is over.
    pub(super) fn replied(&mut self, content: &str, calls: &[ToolCall]) {
        self.settle();
        if !self.is_formatted {
            let say = self.reply.finish(content);
            self.say(say);
        }
        self.close_message("completed");
        self.reply.clear();
        self.held = calls.iter().cloned().enumerate().collect();
        self.begun.clear();
        self.waits = false;
        self.approved.clear();
        self.own = (0..calls.len()).filter(|index| !self.is_of_client(calls.get(*index))).collect();
        self.open = vec![None; calls.len()];
    }

    /// The run ends with the last reply and makes none of its calls: those of functions are no more for the
    /// client to make, and are answered like the others.
    pub(super) fn leave_out_functions(&mut self) {
        self.held.retain(|index, _| self.own.contains(index));
        self.own = (0..self.open.len()).collect();
    }

    /// Calls of the last reply wait for somebody.
    pub(super) fn waits(&mut self) {
        self.waits = true;
    }

    /// Nothing is known of the last reply but itself: its calls are being made, unless some of them wait.
    pub(super) fn settle(&mut self) {
        if !self.waits {
            self.begin_held();
        }
    }

    /// A call of the last reply is being made, of that number among its calls.
    pub(super) fn started(&mut self, index: usize) {
        self.settle();
        self.begin_at(index);
    }

    /// The run waits: the client is asked whether this call may be made.
    pub(super) fn ask_approval(&mut self, id: &str, name: &str, arguments: &str) {
        let place = self.items.len();
        let item = json!({
            "type": "mcp_approval_request", "id": id, "server_label": models::AGENT, "name": name,
            "arguments": arguments,
        });
        self.events.extend([
            ("response.output_item.added", json!({ "output_index": place, "item": item })),
            ("response.output_item.done", json!({ "output_index": place, "item": item })),
        ]);
        self.items.push(item);
    }

    fn begin_held(&mut self) {
        for index in self.held.keys().copied().collect::<Vec<_>>() {
            self.begin_at(index);
        }
    }

    fn begin_at(&mut self, index: usize) {
        let Some(call) = self.held.remove(&index) else { return };
        let approval = self.approved.get(&index).cloned();
        let place = self.begin(&call, approval.as_deref());
        if place.is_some() {
            self.begun.insert(index, call);
        }
        if let Some(open) = self.open.get_mut(index) {
            *open = place;
        }
    }

    /// A call of the last reply was answered, of that number among its calls.
    pub(super) fn returned(&mut self, index: usize, content: &str, succeeded: bool) {
        self.started(index);
        self.begun.remove(&index);
        let Some(place) = self.open.get_mut(index).and_then(Option::take) else { return };
        let Some(item) = self.items.get_mut(place) else { return };
        if succeeded {
            item["output"] = content.into();
        } else {
            let content = json!([{ "type": "text", "text": content }]);
            item["error"] = json!({ "type": "mcp_tool_execution_error", "content": content });
        }
        item["status"] = if succeeded { "completed" } else { "failed" }.into();
        let ended = if succeeded { "response.mcp_call.completed" } else { "response.mcp_call.failed" };
        let place_of = json!({ "item_id": item.get("id"), "output_index": place });
        let done = json!({ "output_index": place, "item": item });
        self.events.extend([(ended, place_of), ("response.output_item.done", done)]);
    }

    /// The run is over: what is still open ends as the result has it.
    pub(super) fn end(&mut self, result: &AgentResult) {
        self.close_message("incomplete");
        self.begin_held();
        let answers = result.messages.iter().rev().map_while(|message| match message {
            Message::Tool { content, .. } => Some(content.as_str()),
            _ => None,
        });
        let answers: Vec<_> = answers.collect();
        for (number, index) in self.own.clone().into_iter().enumerate() {
            // Calls that were not made have no event, and their answers say why.
            let answer = answers.iter().rev().nth(number).copied();
            self.returned(index, answer.unwrap_or(UNANSWERED), false);
        }
        self.say_output(result);
    }

    /// The run failed: nothing that is open comes to an end.
    pub(super) fn break_off(&mut self) {
        self.close_message("incomplete");
        self.settle();
        for index in 0..self.open.len() {
            if !self.held.contains_key(&index) {
                self.returned(index, UNANSWERED, false);
            }
        }
    }

    fn say(&mut self, say: Say) {
        match say {
            Say::Nothing => {}
            Say::More(text) => self.write(&text),
            Say::Anew(text) => {
                // The words that were sent stay what they are: a message that broke off.
                self.close_message("incomplete");
                self.write(&text);
            }
        }
    }

    fn write(&mut self, text: &str) {
        let place = match self.message {
            Some(place) => place,
            None => self.begin_message(),
        };
        let id = self.id_at(place);
        let delta = json!({
            "item_id": id, "output_index": place, "content_index": 0, "delta": text, "logprobs": [],
        });
        if let Some(Value::String(written)) =
            self.items.get_mut(place).and_then(|item| item.pointer_mut("/content/0/text"))
        {
            written.push_str(text);
        }
        self.events.push(("response.output_text.delta", delta));
    }

    fn begin_message(&mut self) -> usize {
        let place = self.items.len();
        let id = format!("msg_{}_{place}", self.id);
        let part = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
        let mut item = json!({
            "type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": [],
        });
        let added = json!({ "output_index": place, "item": item });
        let begun = json!({ "item_id": id, "output_index": place, "content_index": 0, "part": part });
        self.events.extend([("response.output_item.added", added), ("response.content_part.added", begun)]);
        item["content"] = json!([part]);
        self.items.push(item);
        self.message = Some(place);
        place
    }

    fn close_message(&mut self, status: &str) {
        let Some(place) = self.message.take() else { return };
        let Some(item) = self.items.get_mut(place) else { return };
        item["status"] = status.into();
        let part = item.pointer("/content/0").cloned().unwrap_or_default();
        let text = part.get("text").cloned().unwrap_or_default();
        let id = item.get("id").cloned().unwrap_or_default();
        let done = json!({ "output_index": place, "item": item });
        let of_text = json!({
            "item_id": id, "output_index": place, "content_index": 0, "text": text, "logprobs": [],
        });
        let of_part = json!({ "item_id": id, "output_index": place, "content_index": 0, "part": part });
        self.events.extend([
            ("response.output_text.done", of_text),
            ("response.content_part.done", of_part),
            ("response.output_item.done", done),
        ]);
    }

    fn is_of_client(&self, call: Option<&ToolCall>) -> bool {
        call.is_some_and(|call| self.functions.contains(&call.name))
    }

    /// Where an answer goes, if there will be one.
    fn begin(&mut self, call: &ToolCall, approval: Option<&str>) -> Option<usize> {
        if self.is_of_client(Some(call)) {
            self.ask_client(call);
            return None;
        }
        Some(self.begin_call(call, approval))
    }

    /// A call that the client carries out: whole as soon as it is there.
    fn ask_client(&mut self, call: &ToolCall) {
        let (place, arguments) = (self.items.len(), arguments_text(call));
        let id = format!("fc_{}_{place}", self.id);
        let mut item = json!({
            "type": "function_call", "id": id, "status": "in_progress", "call_id": call.id, "name": call.name,
            "arguments": "",
        });
        let added = json!({ "output_index": place, "item": item });
        let delta = json!({ "item_id": id, "output_index": place, "delta": arguments });
        let all = json!({ "item_id": id, "output_index": place, "name": call.name, "arguments": arguments });
        item["arguments"] = arguments.into();
        item["status"] = "completed".into();
        self.events.extend([
            ("response.output_item.added", added),
            ("response.function_call_arguments.delta", delta),
            ("response.function_call_arguments.done", all),
            ("response.output_item.done", json!({ "output_index": place, "item": item })),
        ]);
        self.items.push(item);
    }

    fn begin_call(&mut self, call: &ToolCall, approval: Option<&str>) -> usize {
        let place = self.items.len();
        let id = format!("mcp_{}_{place}", self.id);
        let arguments = arguments_text(call);
        let mut item = json!({
            "type": "mcp_call", "id": id, "status": "in_progress", "server_label": models::AGENT, "name": call.name,
            "arguments": "", "output": null, "error": null, "approval_request_id": approval,
        });
        let at = |name: &str, value: Value| json!({ "item_id": id, "output_index": place, name: value });
        let events = [
            ("response.output_item.added", json!({ "output_index": place, "item": item })),
            ("response.mcp_call.in_progress", json!({ "item_id": id, "output_index": place })),
            ("response.mcp_call_arguments.delta", at("delta", arguments.as_str().into())),
            ("response.mcp_call_arguments.done", at("arguments", arguments.as_str().into())),
        ];
        item["arguments"] = arguments.as_str().into();
        self.events.extend(events);
        self.items.push(item);
        place
    }

    fn id_at(&self, place: usize) -> Value {
        self.items.get(place).and_then(|item| item.get("id")).cloned().unwrap_or_default()
    }
}
