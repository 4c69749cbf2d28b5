//! The messages of kept turns as the items that clients of OpenAI read: with ids, by which one is read,
//! listed from and deleted.
//!
//! A message has no id in the store. That of an item is made of its turn and of what it says, so that it
//! stays the same when an item before it is deleted, or a turn.

use std::collections::{HashMap, HashSet};

use agent_core::words::{ContentPart, Image, ImageDetail, Message, ToolCall, Turn, UserContent};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::input::functions::arguments_text;
use super::super::models;

/// What ids of the agent's own calls begin with ([`super`]). A client that sends such an item back has that
/// id as the id of its call.
const OF_AGENT: &str = "mcp_";

/// Most bytes of the digest in an id: no two items of a conversation have the same.
const DIGEST_BYTES: usize = 16;

/// An item of kept turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// The JSON that clients read.
    pub(crate) shown: Value,
    /// Where its turn is among the turns.
    turn: usize,
    /// Where the message is among those of the turn.
    message: usize,
    part: Part,
}

/// What of a message an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The words of a reply.
    Words,
    /// A call of a reply, with the message that answers it if that is no item of its own.
    Call {
        index: usize,
        answer: Option<usize>,
    },
}

/// The items of these turns, the oldest first. Those of a turn are made when one of them is wanted.
pub(crate) fn of_turns(turns: &[Turn]) -> impl DoubleEndedIterator<Item = Item> {
    turns.iter().enumerate().flat_map(|(index, turn)| ItemsOfTurn::new(turn, index).read())
}

/// The items that a kept response was made from: everything said before its turn, which is the last one, and
/// what its caller said in that.
pub(crate) fn asked(turns: &[Turn], response_id: &str) -> impl DoubleEndedIterator<Item = Item> {
    let own = turns.split_last().filter(|(last, _)| last.id == response_id);
    let (turn, messages) = own.map_or((usize::MAX, 0), |(last, before)| (before.len(), asked_in(last)));
    of_turns(turns).filter(move |item| item.turn < turn || item.message < messages)
}

/// How many messages of a turn its caller said. Of what an earlier release kept: those until the user's last.
fn asked_in(turn: &Turn) -> usize {
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    let last = || turn.messages.iter().rposition(is_user).map_or(0, |index| index + 1);
    turn.asked.unwrap_or_else(last)
}

/// The turns without an item of theirs. A call whose answer is deleted is one that nobody answered, an answer
/// whose call is deleted is not told to the model. One turn stays, so that the conversation does.
pub(crate) fn without(mut turns: Vec<Turn>, item: &Item) -> Vec<Turn> {
    let metadata = turns.last_mut().map(|last| std::mem::take(&mut last.metadata)).unwrap_or_default();
    if let Some(turn) = turns.get_mut(item.turn) {
        if has_twin(turn, item) {
            turn.deleted.push(item.id.clone());
        }
        remove(turn, item);
        if turn.messages.is_empty() && turns.len() > 1 {
            turns.remove(item.turn);
        }
    }
    if let Some(last) = turns.last_mut() {
        last.metadata = metadata;
    }
    turns
}

fn remove(turn: &mut Turn, item: &Item) {
    let mut gone = vec![];
    if let Part::Call { answer: Some(answer), .. } = item.part {
        gone.push(answer);
    }
    match (item.part, turn.messages.get_mut(item.message)) {
        (Part::Words, Some(Message::Assistant { content, tool_calls })) if !tool_calls.is_empty() => {
            content.clear();
        }
        (Part::Call { index, .. }, Some(Message::Assistant { content, tool_calls })) => {
            tool_calls.remove(index);
            if tool_calls.is_empty() && content.is_empty() {
                gone.push(item.message);
            }
        }
        _ => gone.push(item.message),
    }
    let asked = asked_in(turn);
    turn.asked = Some(asked - gone.iter().filter(|index| **index < asked).count());
    let mut index = 0;
    turn.messages.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
}

/// Reads the items of one turn.
struct ItemsOfTurn<'a> {
    turn: &'a Turn,
    index: usize,
    asked: usize,
    /// Messages that answer a call of the agent, and are a part of its item.
    taken: HashSet<usize>,
    /// How often an item was there before that says the same.
    seen: HashMap<String, usize>,
    items: Vec<Item>,
}

impl<'a> ItemsOfTurn<'a> {
    fn new(turn: &'a Turn, index: usize) -> Self {
        let asked = asked_in(turn);
        Self { turn, index, asked, taken: HashSet::new(), seen: HashMap::new(), items: vec![] }
    }

    fn read(mut self) -> Vec<Item> {
        for (index, message) in self.turn.messages.iter().enumerate() {
            match message {
                // Instructions are not kept.
                Message::System { .. } => {}
                Message::User { content } => self.push("msg", user_message(content), index, Part::Whole),
                Message::Assistant { content, tool_calls } => {
                    if !content.is_empty() {
                        self.push("msg", reply(content), index, Part::Words);
                    }
                    for (number, call) in tool_calls.iter().enumerate() {
                        self.push_call(index, number, call);
                    }
                }
                Message::Tool { .. } if self.taken.contains(&index) => {}
                Message::Tool { tool_call_id, content, .. } => {
                    let output = json!({
                        "type": "function_call_output", "status": "completed", "call_id": tool_call_id,
                        "output": content,
                    });
                    self.push("fco", output, index, Part::Whole);
                }
            }
        }
        self.items
    }

    /// A call that the run itself had answered is one of the agent's tools; all others are of functions.
    fn push_call(&mut self, message: usize, index: usize, call: &ToolCall) {
        let answer = self.answer(message, call);
        let is_of_agent = message >= self.asked || call.id.starts_with(OF_AGENT);
        match answer.filter(|_| is_of_agent) {
            Some((answer, output)) => {
                self.taken.insert(answer);
                let shown = json!({
                    "type": "mcp_call", "status": "completed", "server_label": models::AGENT, "name": call.name,
                    "arguments": arguments_text(call), "output": output, "error": null,
                    "approval_request_id": null,
                });
                self.push("mcp", shown, message, Part::Call { index, answer: Some(answer) });
            }
            None => {
                let shown = json!({
                    "type": "function_call", "status": "completed", "call_id": call.id, "name": call.name,
                    "arguments": arguments_text(call),
                });
                self.push("fc", shown, message, Part::Call { index, answer: None });
            }
        }
    }

    /// The answer to a call, among the messages right after it.
    fn answer(&self, message: usize, call: &ToolCall) -> Option<(usize, &'a str)> {
        let after = self.turn.messages.iter().enumerate().skip(message + 1);
        let answers = after.map_while(|(index, message)| match message {
            Message::Tool { tool_call_id, content, .. } => Some((index, tool_call_id, content)),
            _ => None,
        });
        let mut own = answers.filter(|(index, id, _)| **id == call.id && !self.taken.contains(index));
        own.next().map(|(index, _, content)| (index, content.as_str()))
    }

    fn push(&mut self, kind: &str, mut shown: Value, message: usize, part: Part) {
        let text = shown.to_string();
        let before = self.seen.entry(text.clone()).or_default();
        let id = loop {
            let id = id_of(kind, &self.turn.id, *before, &text);
            *before += 1;
            // A deleted item that said the same has its id for good.
            if !self.turn.deleted.contains(&id) {
                break id;
            }
        };
        shown["id"] = id.as_str().into();
        self.items.push(Item { id, shown, turn: self.index, message, part });
    }
}

/// The id of an item of a turn that says `text`, behind so many others that say the same.
fn id_of(kind: &str, turn_id: &str, before: usize, text: &str) -> String {
    let mut hash = Sha256::new();
    for part in [turn_id, &before.to_string(), text] {
        // With its length before it, no part can be read as the end of another.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    format!("{kind}_{:.*x}", 2 * DIGEST_BYTES, hash.finalize())
}

/// Whether another item of the turn says the same.
fn has_twin(turn: &Turn, item: &Item) -> bool {
    let said = |of: &Item| {
        let mut shown = of.shown.clone();
        shown["id"] = Value::Null;
        shown
    };
    let own = said(item);
    ItemsOfTurn::new(turn, item.turn).read().iter().any(|other| other.id != item.id && said(other) == own)
}

fn user_message(content: &UserContent) -> Value {
    let parts: Vec<_> = match content {
        UserContent::Text(text) => vec![input_text(text)],
        UserContent::Parts(parts) => parts.iter().map(input_part).collect(),
    };
    json!({ "type": "message", "status": "completed", "role": "user", "content": parts })
}

fn input_part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text { text } => input_text(text),
        ContentPart::Image(image) => input_image(image),
    }
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn input_image(image: &Image) -> Value {
    let detail = image.detail().unwrap_or(ImageDetail::Auto).as_str();
    json!({ "type": "input_image", "image_url": image.url(), "detail": detail })
}

fn reply(content: &str) -> Value {
    let text = json!({ "type": "output_text", "text": content, "annotations": [], "logprobs": [] });
    json!({ "type": "message", "status": "completed", "role": "assistant", "content": [text] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn of_items_that_say_the_same_each_keeps_its_id() {
        let messages = vec![user("yes"), said("a", &[]), user("yes"), user("yes")];
        let turns = vec![Turn { id: "1".into(), messages, ..Turn::default() }];
        let ids = |turns: &[Turn]| of_turns(turns).iter().map(|item| item.id.clone()).collect::<Vec<_>>();
        let all = ids(&turns);
        for (gone, left) in [(0, [1, 2, 3]), (2, [0, 1, 3]), (3, [0, 1, 2])] {
            let item = of_turns(&turns).remove(gone);
            let without = without(turns.clone(), &item);
            assert_eq!(ids(&without), left.map(|index| all[index].clone()));
        }
    }

    fn of_turns(turns: &[Turn]) -> Vec<Item> {
        super::of_turns(turns).collect()
    }

    fn asked(turns: &[Turn], response_id: &str) -> Vec<Item> {
        super::asked(turns, response_id).collect()
    }

    fn user(content: &str) -> Message {
        Message::User { content: content.into() }
    }

    fn said(content: &str, calls: &[&str]) -> Message {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "f".into(), arguments: json!({}) };
        Message::Assistant { content: content.into(), tool_calls: calls.iter().map(call).collect() }
    }

    fn answers(id: &str, content: &str) -> Message {
        Message::Tool { tool_call_id: id.into(), name: "f".into(), content: content.into() }
    }

    fn turn(id: &str, asked: usize, messages: Vec<Message>) -> Turn {
        Turn { id: id.into(), asked: Some(asked), messages, ..Turn::default() }
    }

    /// Type and words of each item.
    fn brief(items: &[Item]) -> Vec<String> {
        let words = |item: &Item| {
            let words = ["/content/0/text", "/output", "/call_id"].map(|at| item.shown.pointer(at));
            words.into_iter().flatten().find_map(Value::as_str).unwrap_or_default().to_owned()
        };
        items.iter().map(|item| format!("{} {}", item.shown["type"].as_str().unwrap(), words(item))).collect()
    }

    fn turns() -> Vec<Turn> {
        let first = vec![
            user("hi"),
            said("", &["call_1", "mcp_1"]),
            answers("call_1", "own"),
            answers("mcp_1", "sent"),
            user("and?"),
            said("Let me see.", &["a", "a"]),
            answers("a", "1"),
            answers("a", "2"),
            said("", &["open"]),
        ];
        vec![turn("t1", 5, first), turn("t2", 1, vec![answers("open", "3"), said("done", &[])])]
    }

    #[test]
    fn messages_are_items_and_calls_of_the_agent_have_their_answers() {
        let items = of_turns(&turns());
        let expected = [
            "message hi",
            "function_call call_1",
            "mcp_call sent",
            "function_call_output own",
            "message and?",
            "message Let me see.",
            "mcp_call 1",
            "mcp_call 2",
            "function_call open",
            "function_call_output 3",
            "message done",
        ];
        assert_eq!(brief(&items), expected);
        let ids: HashSet<_> = items.iter().map(|item| &item.id).collect();
        assert_eq!(ids.len(), items.len());
        assert_eq!(brief(&asked(&turns(), "t2")), expected[..10]);
        assert_eq!(asked(&turns(), "another").len(), items.len());
        // As an earlier release kept it.
        let mut old = turns();
        old[0].asked = None;
        assert_eq!(brief(&asked(&old[..1], "t1")), expected[..5]);
    }

    #[test]
    fn any_item_can_be_deleted_and_the_others_keep_their_ids() {
        let metadata = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let mut all = turns();
        all[1].metadata = metadata.clone();
        let items = of_turns(&all);
        for item in &items {
            let left = without(all.clone(), item);
            assert_eq!(left[1].metadata, metadata);
            let ids = |items: &[Item]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
            let mut expected = ids(&items);
            expected.retain(|id| *id != item.id);
            assert_eq!(ids(&of_turns(&left)), expected, "{item:?}");
            let is_asked = |items: &[Item], id: &String| items.iter().any(|item| item.id == *id);
            let before = asked(&all[..1], "t1");
            let after = asked(&left[..1], "t1");
            for id in expected.iter().filter(|id| is_asked(&before, id)) {
                assert!(is_asked(&after, id), "{item:?}");
            }
        }
        // One by one until nothing is left but the conversation.
        while let Some(item) = of_turns(&all).first() {
            all = without(all, item);
        }
        assert_eq!((all.len(), all[0].messages.len(), &all[0].metadata), (1, 0, &metadata));
    }

    #[test]
    fn images_are_parts() {
        let image = Image::new("https://example.com/a.png", None).unwrap();
        let parts = vec![ContentPart::Text { text: "what?".into() }, ContentPart::Image(image)];
        let items = of_turns(&[turn("t", 1, vec![Message::User { content: UserContent::of_parts(parts) }])]);
        let expected = json!([
            { "type": "input_text", "text": "what?" },
            { "type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto" },
        ]);
        assert_eq!(items[0].shown["content"], expected);
    }
}
