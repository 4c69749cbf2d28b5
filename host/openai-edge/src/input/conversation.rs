//! A conversation that a client sent: what the agent is asked, and what was said before.
//!
//! Clients of OpenAI send all of it with every request. The newest message is the run's input if it is the
//! user's; what stands before it is the run's history, tool calls and their answers included. An input is a
//! text: a newest message with images ends the history, and the run answers that.

use std::collections::HashMap;

use agent_core::words::{Message, ToolCall, UserContent};
use json_schema::MemoryBudget;

use super::images;
use http_edge::variant_b::error::Problem;

/// Most messages of one request. The body's limit and the token budget bound their texts.
const MOST_MESSAGES: usize = 2_000;

/// Most tool calls of all messages of one request.
const MOST_CALLS: usize = 2_000;

/// Refuses a list with too many messages, before any of them is read.
pub(crate) fn check_length(messages: usize, param: &str) -> Result<(), Problem> {
    if messages > MOST_MESSAGES {
        return Err(Problem::invalid(param, &format!("it may have at most {MOST_MESSAGES} messages.")));
    }
    Ok(())
}

/// Refuses a list with too many tool calls, before any of them is read.
pub(crate) fn check_calls(calls: usize, param: &str) -> Result<(), Problem> {
    if calls > MOST_CALLS {
        return Err(Problem::invalid(param, &format!("a request may have at most {MOST_CALLS} tool calls.")));
    }
    Ok(())
}

/// What was said, put together message by message.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Calls that have no answer yet: of the reply that `reply` names, or, without one, of what was said
    /// before. The client may answer the latter now.
    open: OpenCalls,
    /// The index of the last reply, as long as the user has said nothing behind it.
    reply: Option<usize>,
    /// The first thing that is wrong with calls and answers.
    fault: Option<&'static str>,
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
pub(crate) struct RunInput {
    /// Empty when the newest message is none of the user's, or has images.
    pub(crate) input: String,
    pub(crate) history: Vec<Message>,
}

impl Conversation {
    /// What is said after that. A run answers calls of its own tools that stand beside calls of functions:
    /// only those without an answer are for the client.
    pub(crate) fn after(before: &[Message]) -> Self {
        let mut conversation = Self::default();
        let last = before.iter().rposition(|message| !matches!(message, Message::Tool { .. }));
        let reply = last.and_then(|index| before.get(index..)?.split_first());
        let Some((Message::Assistant { tool_calls, .. }, answers)) = reply else { return conversation };
        for call in tool_calls {
            conversation.open.add(&call.id);
            conversation.names.insert(call.id.clone(), call.name.clone());
        }
        for answer in answers {
            if let Message::Tool { tool_call_id, .. } = answer {
                conversation.open.close(tool_call_id);
            }
        }
        conversation
    }

    /// A call whose arguments are a text.
    pub(crate) fn read_call(&mut self, id: String, name: String, arguments: String) -> ToolCall {
        ToolCall::from_text(id, name, arguments, &mut self.memory)
    }

    pub(crate) fn system(&mut self, content: String) {
        // What says nothing is no instruction.
        if !content.trim().is_empty() {
            self.messages.push(Message::System { content });
        }
    }

    pub(crate) fn user(&mut self, content: UserContent) {
        self.end_reply();
        self.messages.push(Message::User { content });
    }

    pub(crate) fn assistant(&mut self, content: String, tool_calls: Vec<ToolCall>) {
        self.end_reply();
        self.reply = Some(self.messages.len());
        tool_calls.iter().for_each(|call| self.count(call));
        self.messages.push(Message::Assistant { content, tool_calls });
    }

    /// A call that was part of the assistant's message before it, if that was the last one or has calls
    /// without an answer: every call has to be answered before the next reply.
    pub(crate) fn call(&mut self, call: ToolCall) {
        let is_next = matches!(self.messages.last(), Some(Message::Assistant { .. }));
        if !is_next && !self.has_open_reply() {
            self.assistant(String::new(), vec![]);
        }
        self.count(&call);
        if let Some(Message::Assistant { tool_calls, .. }) =
            self.reply.and_then(|index| self.messages.get_mut(index))
        {
            tool_calls.push(call);
        }
    }

    /// A call of the agent with its answer: a reply of its own, unless the reply before it has calls without
    /// an answer. Then it was made beside them, and their answers are still to come.
    pub(crate) fn answered_call(&mut self, call: ToolCall, answer: String) {
        if !self.has_open_reply() {
            self.assistant(String::new(), vec![]);
        }
        let id = call.id.clone();
        self.call(call);
        self.answer(id, answer);
    }

    /// Whether calls of the last reply of these messages have no answer yet.
    fn has_open_reply(&self) -> bool {
        self.reply.is_some() && !self.open.is_empty()
    }

    fn count(&mut self, call: &ToolCall) {
        self.calls += 1;
        self.open.add(&call.id);
        self.names.insert(call.id.clone(), call.name.clone());
    }

    /// Closes the last reply before something else is said, so all its calls must have answers. Open calls of
    /// what was said before are answered for the client.
    fn end_reply(&mut self) {
        if self.has_open_reply() {
            self.fault.get_or_insert("a tool call in it has no answer right after it.");
        }
        self.reply = None;
        self.open = OpenCalls::default();
    }

    /// The answer to a call.
    pub(crate) fn answer(&mut self, tool_call_id: String, content: String) {
        if !self.open.close(&tool_call_id) {
            self.fault.get_or_insert("a tool's answer in it answers no call before it.");
        }
        // Without a call of that id it is refused in the end.
        let name = self.names.get(&tool_call_id).cloned().unwrap_or_default();
        self.messages.push(Message::Tool { tool_call_id, name, content });
    }

    /// The whole, if every tool call is answered before anything else is said, as models want it. `param` is
    /// what the client calls the list.
    pub(crate) fn finish(mut self, param: &str) -> Result<RunInput, Problem> {
        if self.messages.is_empty() {
            return Err(Problem::invalid(param, "it must have at least one message."));
        }
        check_length(self.messages.len(), param)?;
        check_calls(self.calls, param)?;
        images::check_count(&self.messages, param)?;
        self.end_reply();
        if let Some(fault) = self.fault {
            return Err(Problem::invalid(param, fault));
        }
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
    pub(crate) fn into_messages(self, param: &str) -> Result<Vec<Message>, Problem> {
        check_length(self.messages.len(), param)?;
        check_calls(self.calls, param)?;
        images::check_count(&self.messages, param)?;
        Ok(self.messages)
    }
}

/// Calls that wait for their answers: how many there are of each id.
#[derive(Debug, Default)]
struct OpenCalls(HashMap<String, usize>);

impl OpenCalls {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, id: &str) {
        *self.0.entry(id.to_owned()).or_default() += 1;
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
        let check = |before: &[Message], answers: &[&str], is_right: bool| {
            let mut said = Conversation::after(before);
            answers.iter().for_each(|id| said.answer((*id).to_owned(), "x".into()));
            said.user("a".into());
            assert_eq!(said.finish("input").is_ok(), is_right, "{answers:?}");
        };
        for (answers, is_right) in [(&["2", "1"][..], true), (&["1"], true), (&[], true), (&["3"], false)] {
            check(&before, answers, is_right);
        }
        // The run itself has answered one of them.
        let answered = Message::Tool { tool_call_id: "2".into(), name: "tool_2".into(), content: "x".into() };
        let before = [before.as_slice(), &[answered]].concat();
        for (answers, is_right) in [(&["1"][..], true), (&[], true), (&["2"], false), (&["1", "1"], false)] {
            check(&before, answers, is_right);
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

    /// The model called all of them in one reply, of which the client answers only its own.
    #[test]
    fn calls_between_open_calls_are_of_the_same_reply() {
        let asked = of(|said| {
            said.answered_call(call("0"), "x".into());
            said.call(call("1"));
            said.answered_call(call("2"), "x".into());
            said.call(call("3"));
            said.answer("1".into(), "x".into());
            said.answer("3".into(), "x".into());
            said.answered_call(call("4"), "x".into());
        });
        let calls: Vec<_> = asked
            .unwrap()
            .history
            .into_iter()
            .map(|message| match message {
                Message::Assistant { tool_calls, .. } => {
                    tool_calls.into_iter().map(|call| call.id).collect::<String>()
                }
                Message::Tool { tool_call_id, .. } => tool_call_id,
                Message::System { .. } | Message::User { .. } => panic!("nobody said that"),
            })
            .collect();
        assert_eq!(calls, ["0", "0", "123", "2", "1", "3", "4", "4"]);
        // What the user says ends the reply, whose calls had to be answered.
        let is_open = of(|said| {
            said.call(call("1"));
            said.answered_call(call("2"), "x".into());
            said.user("a".into());
        });
        assert!(is_open.is_err());
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
