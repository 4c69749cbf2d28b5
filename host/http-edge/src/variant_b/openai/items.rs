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
//! The same steps make the output of a response that is not streamed, whose events nobody reads
//! ([`Items::take`]).

use std::collections::BTreeSet;

use agent_core::words::{AgentResult, Message, ToolCall, ToolOutcome};
use serde_json::{Value, json};

use super::completion::words;
use super::functions::arguments_text;
use super::models;
use super::sent_text::{Say, SentText};

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
        for message in &result.messages {
            match message {
                Message::Assistant { content, tool_calls } => {
                    self.replied(content, tool_calls);
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
        if !self.is_formatted {
            let say = self.reply.finish(content);
            self.say(say);
        }
        self.close_message("completed");
        self.reply.clear();
        self.own = (0..calls.len()).filter(|index| !self.is_of_client(calls.get(*index))).collect();
        self.open = calls.iter().map(|call| self.begin(call)).collect();
    }

    /// A call of the last reply was answered, of that number among its calls.
    pub(super) fn returned(&mut self, index: usize, content: &str, succeeded: bool) {
        let Some(place) = self.open.get_mut(index).and_then(Option::take) else { return };
        let Some(item) = self.items.get_mut(place) else { return };
        if succeeded {
            set(item, "output", content.into());
        } else {
            let content = json!([{ "type": "text", "text": content }]);
            set(item, "error", json!({ "type": "mcp_tool_execution_error", "content": content }));
        }
        set(item, "status", if succeeded { "completed" } else { "failed" }.into());
        let ended = if succeeded { "response.mcp_call.completed" } else { "response.mcp_call.failed" };
        let place_of = json!({ "item_id": item.get("id"), "output_index": place });
        let done = json!({ "output_index": place, "item": item });
        self.events.extend([(ended, place_of), ("response.output_item.done", done)]);
    }

    /// The run is over: what is still open ends as the result has it.
    pub(super) fn end(&mut self, result: &AgentResult) {
        self.close_message("incomplete");
        let answers = result.messages.iter().rev().map_while(|message| match message {
            Message::Tool { content, .. } => Some(content.as_str()),
            _ => None,
        });
        let answers: Vec<_> = answers.collect();
        for (number, index) in self.own.clone().into_iter().enumerate() {
            // Calls that were not made have no event, and their answers say why.
            let answer = answers.iter().rev().nth(number).copied();
            self.returned(index, answer.unwrap_or("The call was not answered."), false);
        }
        self.say_output(result);
    }

    /// The run failed: nothing that is open comes to an end.
    pub(super) fn break_off(&mut self) {
        self.close_message("incomplete");
        for index in 0..self.open.len() {
            self.returned(index, "The call was not answered.", false);
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
        set(&mut item, "content", json!([part]));
        self.items.push(item);
        self.message = Some(place);
        place
    }

    fn close_message(&mut self, status: &str) {
        let Some(place) = self.message.take() else { return };
        let Some(item) = self.items.get_mut(place) else { return };
        set(item, "status", status.into());
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
    fn begin(&mut self, call: &ToolCall) -> Option<usize> {
        if self.is_of_client(Some(call)) {
            self.ask_client(call);
            return None;
        }
        Some(self.begin_call(call))
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
        set(&mut item, "arguments", arguments.into());
        set(&mut item, "status", "completed".into());
        self.events.extend([
            ("response.output_item.added", added),
            ("response.function_call_arguments.delta", delta),
            ("response.function_call_arguments.done", all),
            ("response.output_item.done", json!({ "output_index": place, "item": item })),
        ]);
        self.items.push(item);
    }

    fn begin_call(&mut self, call: &ToolCall) -> usize {
        let place = self.items.len();
        let id = format!("mcp_{}_{place}", self.id);
        let arguments = arguments_text(call);
        let mut item = json!({
            "type": "mcp_call", "id": id, "status": "in_progress", "server_label": models::AGENT, "name": call.name,
            "arguments": "", "output": null, "error": null, "approval_request_id": null,
        });
        let at = |name: &str, value: Value| json!({ "item_id": id, "output_index": place, name: value });
        let events = [
            ("response.output_item.added", json!({ "output_index": place, "item": item })),
            ("response.mcp_call.in_progress", json!({ "item_id": id, "output_index": place })),
            ("response.mcp_call_arguments.delta", at("delta", arguments.as_str().into())),
            ("response.mcp_call_arguments.done", at("arguments", arguments.as_str().into())),
        ];
        set(&mut item, "arguments", arguments.as_str().into());
        self.events.extend(events);
        self.items.push(item);
        place
    }

    fn id_at(&self, place: usize) -> Value {
        self.items.get(place).and_then(|item| item.get("id")).cloned().unwrap_or_default()
    }
}

fn set(item: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = item {
        fields.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{StopReason, ToolReceipt, Usage};

    use super::*;

    fn call(name: &str) -> ToolCall {
        ToolCall { id: format!("id_{name}"), name: name.into(), arguments: json!({"a": 1}) }
    }

    fn result(messages: Vec<Message>, outcomes: &[ToolOutcome]) -> AgentResult {
        AgentResult {
            id: "run_1".into(),
            output: String::new(),
            output_value: None,
            output_error: None,
            stop_reason: StopReason::Completed,
            messages,
            usage: Usage::default(),
            iterations: 1,
            model: "test/m".into(),
            tool_calls: outcomes.iter().map(|outcome| ToolReceipt::new("t", *outcome)).collect(),
        }
    }

    fn said(content: &str, tool_calls: Vec<ToolCall>) -> Message {
        Message::Assistant { content: content.into(), tool_calls }
    }

    fn answer(content: &str) -> Message {
        Message::Tool { tool_call_id: "id".into(), name: "t".into(), content: content.into() }
    }

    /// Type, status and words of each item.
    fn brief(items: &[Value]) -> Vec<String> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("-").to_owned();
        let brief = |item: &Value| {
            let words =
                item.pointer("/content/0/text").or(item.get("output")).filter(|words| !words.is_null());
            format!(
                "{} {} {}",
                text(item.get("type")),
                text(item.get("status")),
                text(words.or(item.pointer("/error/content/0/text")))
            )
        };
        items.iter().map(brief).collect()
    }

    fn whole_run() -> AgentResult {
        let calls = vec![call("add"), call("nope")];
        let messages = vec![
            Message::User { content: "1+2?".into() },
            said("Let me see.", calls),
            answer("3"),
            answer("There is no tool nope."),
            said("It is 3.", vec![]),
        ];
        result(messages, &[ToolOutcome::Ok, ToolOutcome::UnknownTool])
    }

    const WHOLE: [&str; 4] = [
        "message completed Let me see.",
        "mcp_call completed 3",
        "mcp_call failed There is no tool nope.",
        "message completed It is 3.",
    ];

    /// The events of each item, by its place: begun before anything else, and nothing after it is done.
    fn check_order(events: &[Event]) {
        let mut done = vec![];
        for (kind, fields) in events {
            let place = fields["output_index"].as_u64().unwrap() as usize;
            match *kind {
                "response.output_item.added" => {
                    assert_eq!(place, done.len(), "items come in their order");
                    done.push(false);
                }
                "response.output_item.done" => {
                    assert!(!std::mem::replace(&mut done[place], true), "done twice");
                    assert_ne!(fields["item"]["status"], "in_progress");
                }
                _ => assert!(!done[place], "{kind} of item {place} after it is done"),
            }
        }
        assert!(done.iter().all(|is_done| *is_done), "{done:?}");
    }

    #[test]
    fn a_run_that_is_watched_has_the_items_of_one_that_is_not() {
        let whole = whole_run();
        let mut taken = Items::new("1", BTreeSet::new(), false);
        taken.take(&whole);
        assert_eq!(brief(taken.all()), WHOLE);
        let mut watched = Items::new("1", BTreeSet::new(), false);
        watched.delta("Let me ");
        watched.delta("see.");
        watched.replied("Let me see.", &[call("add"), call("nope")]);
        // In any order.
        watched.returned(1, "There is no tool nope.", false);
        watched.returned(0, "3", true);
        watched.delta("It is 4");
        watched.reset();
        watched.delta("It ");
        watched.delta("is 4");
        watched.reset();
        watched.replied("It is 3.", &[]);
        watched.end(&whole);
        let mut expected = WHOLE.to_vec();
        // What broke off cannot be taken back.
        expected.insert(3, "message incomplete It is 4");
        assert_eq!(brief(watched.all()), expected);
        let events = watched.events();
        check_order(&events);
        let deltas: String = events
            .iter()
            .filter(|(kind, _)| *kind == "response.output_text.delta")
            .map(|(_, fields)| fields["delta"].as_str().unwrap())
            .collect();
        assert_eq!(deltas, "Let me see.It is 4It is 3.");
        assert!(watched.events().is_empty());
    }

    #[test]
    fn words_that_are_no_answer_of_the_format_are_not_said() {
        let right = || Some(json!({"a": 1}));
        for (stop_reason, output_value, expected) in [
            (StopReason::Completed, right(), &["message completed words"][..]),
            // A limit cut it off, and the client sees that it did.
            (StopReason::MaxTokens, None, &["message completed words"]),
            // A run that waits for somebody says so in the place of an answer.
            (StopReason::Completed, None, &[]),
            (StopReason::InvalidOutput, None, &[]),
            (StopReason::ToolCalls, None, &[]),
        ] {
            let ended = result(vec![said("words", vec![])], &[]);
            let output_error = Some("why".to_owned());
            let output = "words".to_owned();
            let ended = AgentResult { stop_reason, output, output_value, output_error, ..ended };
            let mut items = Items::new("1", BTreeSet::new(), true);
            items.take(&ended);
            assert_eq!(brief(items.all()), expected, "{stop_reason:?}");
        }
    }

    #[test]
    fn what_is_open_at_the_end_is_closed() {
        let mut items = Items::new("1", BTreeSet::new(), false);
        items.replied("", &[call("add"), call("add")]);
        items.returned(0, "3", true);
        let messages =
            vec![said("", vec![call("add"), call("add")]), answer("3"), answer("not run: cancelled")];
        items.end(&result(messages, &[]));
        assert_eq!(brief(items.all()), ["mcp_call completed 3", "mcp_call failed not run: cancelled"]);
        check_order(&items.events());

        let mut items = Items::new("1", BTreeSet::new(), false);
        items.delta("It");
        items.break_off();
        assert_eq!(brief(items.all()), ["message incomplete It"]);
        check_order(&items.events());
    }

    #[test]
    fn functions_of_the_client_are_calls_for_it_to_make() {
        let calls = vec![call("look"), call("add"), call("look")];
        let messages = vec![said("", calls.clone()), answer("not run")];
        let ended =
            AgentResult { stop_reason: StopReason::ToolCalls, ..result(messages, &[ToolOutcome::NotRun]) };
        let items = || Items::new("1", BTreeSet::from(["look".to_owned()]), false);
        let (mut taken, mut watched) = (items(), items());
        taken.take(&ended);
        watched.replied("", &calls);
        watched.end(&ended);
        for mut items in [taken, watched] {
            assert_eq!(
                brief(items.all()),
                ["function_call completed -", "mcp_call failed not run", "function_call completed -"]
            );
            let first = &items.all()[0];
            assert_eq!((&first["call_id"], &first["arguments"]), (&json!("id_look"), &json!(r#"{"a":1}"#)));
            check_order(&items.events());
        }
    }
}
