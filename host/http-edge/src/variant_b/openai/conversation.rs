//! A conversation that a client sent: what the agent is asked, and what was said before.
//!
//! Clients of OpenAI send all of it with every request. The newest message is the run's input if it is the user's; what
//! stands before it is the run's history, tool calls and their answers included. An input is a text: a newest message with images
//! ends the history, and the run answers that.

use agent_core::words::{Message, ToolCall, UserContent};

use super::images;
use super::problem::Problem;

/// Most messages of one request. The body's limit and the token budget bound their texts.
const MOST_MESSAGES: usize = 2_000;

/// Refuses a list with too many messages. Before any of them is read: an answer is looked for among the calls before it, which would
/// take long for all that a body can hold.
pub(super) fn check_length(messages: usize, param: &str) -> Result<(), Problem> {
    if messages > MOST_MESSAGES {
        return Err(Problem::invalid(param, &format!("it may have at most {MOST_MESSAGES} messages.")));
    }
    Ok(())
}

/// What was said, put together message by message.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Calls that what was said before ended with. The client may answer them now.
    open: Vec<ToolCall>,
    messages: Vec<Message>,
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
        let open = match before.last() {
            Some(Message::Assistant { tool_calls, .. }) => tool_calls.clone(),
            _ => vec![],
        };
        Self { open, messages: vec![] }
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
        self.messages.push(Message::Assistant { content, tool_calls });
    }

    /// A call that was part of the assistant's message before it, if that was the last one.
    pub(super) fn call(&mut self, call: ToolCall) {
        match self.messages.last_mut() {
            Some(Message::Assistant { tool_calls, .. }) => tool_calls.push(call),
            _ => self.assistant(String::new(), vec![call]),
        }
    }

    /// The answer to a call.
    pub(super) fn answer(&mut self, tool_call_id: String, content: String) {
        let name = self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant { tool_calls, .. } => {
                tool_calls.iter().find(|call| call.id == tool_call_id).map(|call| call.name.clone())
            }
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
        });
        let before = || self.open.iter().find(|call| call.id == tool_call_id).map(|call| call.name.clone());
        // Without a call of that id it is refused in the end.
        let name = name.or_else(before).unwrap_or_default();
        self.messages.push(Message::Tool { tool_call_id, name, content });
    }

    /// The whole, if every tool call is answered before anything else is said, as models want it. `param` is what the client
    /// calls the list.
    pub(super) fn finish(mut self, param: &str) -> Result<RunInput, Problem> {
        if self.messages.is_empty() {
            return Err(Problem::invalid(param, "it must have at least one message."));
        }
        check_length(self.messages.len(), param)?;
        images::check_count(&self.messages, param)?;
        self.check_calls(param)?;
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

    fn check_calls(&self, param: &str) -> Result<(), Problem> {
        let mut open: Vec<&str> = self.open.iter().map(|call| call.id.as_str()).collect();
        // What is not answered of the calls before is answered for the client.
        let mut are_before = true;
        let unanswered = |open: &[&str], are_before: bool| match open.first() {
            Some(_) if !are_before => {
                Err(Problem::invalid(param, "a tool call in it has no answer right after it."))
            }
            Some(_) | None => Ok(()),
        };
        for message in &self.messages {
            match message {
                Message::System { .. } => {}
                Message::User { .. } => {
                    unanswered(&open, are_before)?;
                    (open, are_before) = (vec![], false);
                }
                Message::Assistant { tool_calls, .. } => {
                    unanswered(&open, are_before)?;
                    are_before = false;
                    open = tool_calls.iter().map(|call| call.id.as_str()).collect();
                }
                Message::Tool { tool_call_id, .. } => {
                    let place = open.iter().position(|id| *id == tool_call_id.as_str());
                    let place = place.ok_or_else(|| {
                        Problem::invalid(param, "a tool's answer in it answers no call before it.")
                    })?;
                    open.remove(place);
                }
            }
        }
        unanswered(&open, are_before)
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
    }
}
