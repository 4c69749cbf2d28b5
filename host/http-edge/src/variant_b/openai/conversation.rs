//! A conversation that a client sent: what the agent is asked, and what was said before.
//!
//! Clients of OpenAI send all of it with every request. The newest message is the run's input if it is the
//! user's; what stands before it is the run's history, tool calls and their answers included. An input is a
//! text: a newest message with images ends the history, and the run answers that.

use std::collections::HashMap;

use agent_core::words::{Message, ToolCall, UserContent};
use json_schema::MemoryBudget;

use super::super::error::Problem;
use super::images;

/// Most messages of one request. The body's limit and the token budget bound their texts.
const MOST_MESSAGES: usize = 2_000;

/// Most tool calls of all messages of one request.
const MOST_CALLS: usize = 2_000;

/// Refuses a list with too many messages, before any of them is read.
pub(super) fn check_length(messages: usize, param: &str) -> Result<(), Problem> {
    if messages > MOST_MESSAGES {
        return Err(Problem::invalid(param, &format!("it may have at most {MOST_MESSAGES} messages.")));
    }
    Ok(())
}

/// Refuses a list with too many tool calls, before any of them is read.
pub(super) fn check_calls(calls: usize, param: &str) -> Result<(), Problem> {
    if calls > MOST_CALLS {
        return Err(Problem::invalid(param, &format!("a request may have at most {MOST_CALLS} tool calls.")));
    }
    Ok(())
}

/// What was said, put together message by message.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Ids of the calls that what was said before ended with. The client may answer them now.
    open: Vec<String>,
    messages: Vec<Message>,
    /// The names of the tools by the ids of their calls: of two calls of one id, that of the later.
    names: HashMap<String, String>,
    /// How many tool calls the messages have.
    calls: usize,
    /// Memory for the arguments of all calls. They are JSON within a text, which the body's reader does not
    /// look into.
    memory: MemoryBudget,
}

/// What a run is begun with.
#[derive(Debug, PartialEq)]
pub(super) struct RunInput {
    /// Empty when the newest message is none of the user's, or has images.
    pub(super) input: String,
    pub(super) history: Vec<Message>,
}

impl Conversation {
    /// What is said after that.
    pub(super) fn after(before: &[Message]) -> Self {
        let calls = match before.last() {
            Some(Message::Assistant { tool_calls, .. }) => tool_calls.as_slice(),
            _ => &[],
        };
        let open = calls.iter().map(|call| call.id.clone()).collect();
        let names = calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
        Self { open, names, ..Self::default() }
    }

    /// A call whose arguments are a text.
    pub(super) fn read_call(&mut self, id: String, name: String, arguments: String) -> ToolCall {
        ToolCall::from_text(id, name, arguments, &mut self.memory)
    }

    pub(super) fn system(&mut self, content: String) {
        // What says nothing is no instruction.
        if !content.trim().is_empty() {
            self.messages.push(Message::System { content });
        }
    }

    pub(super) fn user(&mut self, content: UserContent) {
        self.messages.push(Message::User { content });
    }

    pub(super) fn assistant(&mut self, content: String, tool_calls: Vec<ToolCall>) {
        tool_calls.iter().for_each(|call| self.count(call));
        self.messages.push(Message::Assistant { content, tool_calls });
    }

    /// A call that was part of the assistant's message before it, if that was the last one.
    pub(super) fn call(&mut self, call: ToolCall) {
        if !matches!(self.messages.last(), Some(Message::Assistant { .. })) {
            self.assistant(String::new(), vec![]);
        }
        self.count(&call);
        if let Some(Message::Assistant { tool_calls, .. }) = self.messages.last_mut() {
            tool_calls.push(call);
        }
    }

    fn count(&mut self, call: &ToolCall) {
        self.calls += 1;
        self.names.insert(call.id.clone(), call.name.clone());
    }

    /// The answer to a call.
    pub(super) fn answer(&mut self, tool_call_id: String, content: String) {
        // Without a call of that id it is refused in the end.
        let name = self.names.get(&tool_call_id).cloned().unwrap_or_default();
        self.messages.push(Message::Tool { tool_call_id, name, content });
    }

    /// The whole, if every tool call is answered before anything else is said, as models want it. `param` is
    /// what the client calls the list.
    pub(super) fn finish(mut self, param: &str) -> Result<RunInput, Problem> {
        if self.messages.is_empty() {
            return Err(Problem::invalid(param, "it must have at least one message."));
        }
        check_length(self.messages.len(), param)?;
        check_calls(self.calls, param)?;
        images::check_count(&self.messages, param)?;
        self.check_answers(param)?;
        let is_said = |message: &Message| !matches!(message, Message::System { .. });
        let newest = self.messages.iter().rposition(is_said);
        let asks = |message: &Message| matches!(message, Message::User { content: UserContent::Text(text) } if !text.is_empty());
        let of_user = newest.filter(|index| self.messages.get(*index).is_some_and(asks));
        let input = match of_user.map(|index| self.messages.remove(index)) {
            Some(Message::User { content: UserContent::Text(text) }) => text,
            _ => String::new(),
        };
        Ok(RunInput { input, history: self.messages })
    }

    /// What was said, whether or not all calls are answered: what is kept of it is mended when a run goes on
    /// from it.
    pub(super) fn into_messages(self, param: &str) -> Result<Vec<Message>, Problem> {
        check_length(self.messages.len(), param)?;
        check_calls(self.calls, param)?;
        images::check_count(&self.messages, param)?;
        Ok(self.messages)
    }

    /// Refuses calls without an answer right after them, and answers without a call.
    fn check_answers(&self, param: &str) -> Result<(), Problem> {
        let mut open = OpenCalls::of(self.open.iter().map(String::as_str));
        // What is not answered of the calls before is answered for the client.
        let mut are_before = true;
        let unanswered = |open: &OpenCalls<'_>, are_before: bool| {
            if open.0.is_empty() || are_before {
                return Ok(());
            }
            Err(Problem::invalid(param, "a tool call in it has no answer right after it."))
        };
        for message in &self.messages {
            match message {
                Message::System { .. } => {}
                Message::User { .. } => {
                    unanswered(&open, are_before)?;
                    (open, are_before) = (OpenCalls::default(), false);
                }
                Message::Assistant { tool_calls, .. } => {
                    unanswered(&open, are_before)?;
                    are_before = false;
                    open = OpenCalls::of(tool_calls.iter().map(|call| call.id.as_str()));
                }
                Message::Tool { tool_call_id, .. } => {
                    if !open.close(tool_call_id) {
                        let why = "a tool's answer in it answers no call before it.";
                        return Err(Problem::invalid(param, why));
                    }
                }
            }
        }
        unanswered(&open, are_before)
    }
}

/// Calls that wait for their answers: how many there are of each id.
#[derive(Default)]
struct OpenCalls<'a>(HashMap<&'a str, usize>);

impl<'a> OpenCalls<'a> {
    fn of(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut open = HashMap::new();
        for id in ids {
            *open.entry(id).or_default() += 1;
        }
        Self(open)
    }

    /// Takes the answer to a call. False when none of that id is open.
    fn close(&mut self, id: &str) -> bool {
        let Some(open) = self.0.get_mut(id) else { return false };
        *open -= 1;
        if *open == 0 {
            self.0.remove(id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{ContentPart, Image, MOST_IMAGES};
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: format!("tool_{id}"), arguments: json!({}) }
    }

    fn of(build: impl FnOnce(&mut Conversation)) -> Result<RunInput, Problem> {
        let mut conversation = Conversation::default();
        build(&mut conversation);
        conversation.finish("messages")
    }

    #[test]
    fn the_newest_message_is_the_input_if_it_is_the_users() {
        let asked = of(|said| {
            said.user("a".into());
            said.assistant("b".into(), vec![]);
            said.user("c".into());
            said.system("be kind".into());
            said.system(" ".into());
        })
        .unwrap();
        let said = Message::Assistant { content: "b".into(), tool_calls: vec![] };
        let told = Message::System { content: "be kind".into() };
        assert_eq!(
            (asked.input.as_str(), asked.history),
            ("c", vec![Message::User { content: "a".into() }, said, told])
        );
        let asked = of(|said| {
            said.user("a".into());
            said.call(call("1"));
            said.call(call("2"));
            said.answer("2".into(), "y".into());
            said.answer("1".into(), "x".into());
        })
        .unwrap();
        assert_eq!((asked.input.as_str(), asked.history.len()), ("", 4));
        let Message::Tool { name, .. } = &asked.history[2] else { panic!() };
        assert_eq!(name, "tool_2");
        // With images it ends the history.
        let image = || ContentPart::Image(Image::new("https://example.com/a.png", None).unwrap());
        let shown = |images: usize| UserContent::of_parts((0..images).map(|_| image()).collect());
        let asked = of(|said| {
            said.user("a".into());
            said.user(shown(2));
            said.system("be kind".into());
        })
        .unwrap();
        assert_eq!((asked.input.as_str(), asked.history.len()), ("", 3));
        assert_eq!(asked.history[1], Message::User { content: shown(2) });
        let most = |more: usize| {
            of(|said| {
                said.user(shown(MOST_IMAGES - 1));
                said.user(shown(1 + more));
            })
        };
        assert!(most(0).is_ok() && most(1).is_err());
    }

    #[test]
    fn calls_and_answers_belong_together() {
        type Build = fn(&mut Conversation);
        let wrong: [Build; 5] = [
            |_said| {},
            |said| said.answer("1".into(), "x".into()),
            |said| said.call(call("1")),
            |said| {
                said.call(call("1"));
                said.user("a".into());
            },
            |said| {
                said.call(call("1"));
                said.answer("1".into(), "x".into());
                said.answer("1".into(), "x".into());
            },
        ];
        for (number, build) in wrong.into_iter().enumerate() {
            assert!(of(build).is_err(), "{number}");
        }
        let before = [Message::Assistant { content: String::new(), tool_calls: vec![call("1"), call("2")] }];
        for (answers, is_right) in [(&["2", "1"][..], true), (&["1"], true), (&[], true), (&["3"], false)] {
            let mut said = Conversation::after(&before);
            answers.iter().for_each(|id| said.answer((*id).to_owned(), "x".into()));
            said.user("a".into());
            assert_eq!(said.finish("input").is_ok(), is_right, "{answers:?}");
        }
        let many = of(|said| (0..=MOST_MESSAGES).for_each(|_| said.user("a".into())));
        assert!(many.is_err());
        let of_calls = |count: usize| {
            of(|said| {
                said.assistant(String::new(), (0..count).map(|id| call(&id.to_string())).collect());
                (0..count).for_each(|id| said.answer(id.to_string(), "x".into()));
            })
        };
        assert!(of_calls(MOST_CALLS - 1).is_ok());
        let problem = of_calls(MOST_CALLS + 1).unwrap_err();
        assert_eq!(problem.status(), http::StatusCode::BAD_REQUEST);
    }

    #[test]
    fn the_answer_is_to_the_last_call_of_its_id() {
        let asked = of(|said| {
            for name in ["first", "second"] {
                said.call(ToolCall { name: name.into(), ..call("1") });
                said.answer("1".into(), "x".into());
            }
        });
        let names: Vec<_> = asked
            .unwrap()
            .history
            .into_iter()
            .filter_map(|message| match message {
                Message::Tool { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["first", "second"]);
    }

    /// Arguments are JSON within a text: the body's reader does not look into them.
    #[test]
    fn the_arguments_of_all_calls_share_a_budget_of_memory() {
        let mut said = Conversation::default();
        let dense = format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(1 << 12));
        let read =
            |said: &mut Conversation| said.read_call("1".into(), "add".into(), dense.clone()).arguments;
        assert!(read(&mut said).is_object());
        let kept_as_text = (0..10).filter(|_| read(&mut said).is_string()).count();
        assert!(kept_as_text >= 5, "{kept_as_text}");
    }
}
