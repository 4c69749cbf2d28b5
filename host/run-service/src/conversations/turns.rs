//! How a turn changes a conversation, and what of it is put in front of a run. No I/O.

use agent_core::words::{MOST_CONVERSATION_BYTES, MOST_IMAGES, MOST_TURNS, Message, StopReason, Turn, cut};

/// What a model is told of a call whose answer nobody gave: providers refuse a call without one.
const UNANSWERED: &str = "{\"error\":\"the caller gave no answer to this call\"}";

/// Whether a run that ended for that reason becomes a turn. What was cancelled, refused or empty would only
/// be in the way.
pub fn is_kept(reason: StopReason) -> bool {
    match reason {
        StopReason::Completed
        | StopReason::MaxIterations
        | StopReason::TokenBudget
        | StopReason::MaxTokens
        | StopReason::ToolCalls => true,
        StopReason::ContentFilter
        | StopReason::EmptyReply
        | StopReason::InvalidOutput
        | StopReason::Cancelled => false,
    }
}

/// Most bytes of one turn, as JSON. Of a larger one only the beginnings of two messages are kept.
pub const MOST_TURN_BYTES: usize = MOST_CONVERSATION_BYTES / 2;

/// The turn of a run, which its caller has yet to name: what its caller said, without instructions, and the
/// transcript, which begins with the question.
pub fn said(by_caller: &[Message], transcript: &[Message]) -> Turn {
    let is_said = |message: &&Message| !matches!(message, Message::System { .. });
    let question = transcript.iter().take_while(|message| matches!(message, Message::User { .. })).count();
    let asked = by_caller.iter().filter(is_said).count() + question;
    let transcript = without_corrections(transcript, question);
    let messages = by_caller.iter().chain(transcript).filter(is_said).cloned().collect();
    Turn { messages, asked: Some(asked), ..Turn::default() }
}

/// A transcript without the replies that were no output of their format, and what the model was told of them:
/// nobody said that. Behind the question only such corrections are messages of the user's role.
fn without_corrections(transcript: &[Message], question: usize) -> impl Iterator<Item = &Message> {
    let is_correction =
        move |index: usize| index >= question && matches!(transcript.get(index), Some(Message::User { .. }));
    let is_kept = move |index: usize| !is_correction(index) && !is_correction(index + 1);
    transcript.iter().enumerate().filter(move |(index, _)| is_kept(*index)).map(|(_, message)| message)
}

/// The conversation with one more turn. Beyond its bounds the oldest images are left out, then the oldest
/// turns; and of a turn that is too large by itself its images, then everything but the beginning of its
/// first message and of its last reply. Where an image was, its name stays. The metadata go to the new turn,
/// and turns in which nothing is said have done their work.
pub fn appended(mut turns: Vec<Turn>, mut turn: Turn) -> Vec<Turn> {
    // Metadata have bounds of their own, and no words are left out for them.
    let metadata = std::mem::take(&mut turn.metadata);
    let turn = if turn_bytes(&turn) > MOST_TURN_BYTES { without_images(turn) } else { turn };
    let mut turn = if turn_bytes(&turn) > MOST_TURN_BYTES { shortened(turn) } else { turn };
    turn.metadata = match turns.last_mut() {
        Some(last) if metadata.is_empty() => std::mem::take(&mut last.metadata),
        Some(_) | None => metadata,
    };
    turns.retain(|turn| !turn.messages.is_empty());
    turns.push(turn);
    leave_out_images(&mut turns);
    let sizes: Vec<usize> = turns.iter().map(turn_bytes).collect();
    let mut total: usize = sizes.iter().sum();
    let mut left_out = 0;
    while turns.len() - left_out > 1
        && (turns.len() - left_out > MOST_TURNS
            || total > MOST_CONVERSATION_BYTES
            || begins_with_answer(turns.get(left_out)))
    {
        total -= sizes.get(left_out).copied().unwrap_or_default();
        left_out += 1;
    }
    turns.drain(..left_out);
    turns
}

/// Puts names in the place of the oldest images while the turns are too large. Words are kept for longer:
/// they are smaller. The newest turn keeps its own.
fn leave_out_images(turns: &mut [Turn]) {
    if !turns.iter().any(has_images) {
        return;
    }
    let mut total: usize = turns.iter().map(turn_bytes).sum();
    let Some((_newest, older)) = turns.split_last_mut() else { return };
    for turn in older.iter_mut().filter(|turn| has_images(turn)) {
        if total <= MOST_CONVERSATION_BYTES {
            return;
        }
        let before = turn_bytes(turn);
        *turn = without_images(turn.clone());
        total -= before.saturating_sub(turn_bytes(turn));
    }
}

fn has_images(turn: &Turn) -> bool {
    turn.messages.iter().any(|message| message.images() > 0)
}

fn without_images(mut turn: Turn) -> Turn {
    for message in &mut turn.messages {
        if let Message::User { content } = message {
            *content = content.without_images();
        }
    }
    turn
}

/// An answer to a call of a turn before it says nothing without that call.
fn begins_with_answer(turn: Option<&Turn>) -> bool {
    matches!(turn.and_then(|turn| turn.messages.first()), Some(Message::Tool { .. }))
}

/// Bytes of a turn, as JSON.
pub fn turn_bytes(turn: &Turn) -> usize {
    // Messages can always be written.
    serde_json::to_vec(turn).map_or(0, |json| json.len())
}

fn shortened(mut turn: Turn) -> Turn {
    // Escaped as JSON a character takes up to six bytes.
    const MOST: usize = MOST_CONVERSATION_BYTES / 32;
    let is_reply = |message: &&Message| matches!(message, Message::Assistant { .. });
    let asked = turn.messages.iter().find(|message| matches!(message, Message::User { .. }));
    let asked = match asked {
        Some(Message::User { content }) => {
            Some(Message::User { content: beginning(&content.text(), MOST).into() })
        }
        _ => None,
    };
    let reply = match turn.messages.iter().rev().find(is_reply) {
        Some(Message::Assistant { content, .. }) => {
            Some(Message::Assistant { content: beginning(content, MOST), tool_calls: vec![] })
        }
        _ => None,
    };
    turn.asked = Some(usize::from(asked.is_some()));
    turn.messages = asked.into_iter().chain(reply).collect();
    turn
}

fn beginning(text: &str, most: usize) -> String {
    let mut beginning = text.to_owned();
    cut(&mut beginning, most);
    beginning
}

/// What a run is begun with whose caller says `own`: what was said in the turns, what the caller says, and
/// the caller's instructions, which are those of this run alone. Of too many images the newest stay.
pub fn in_front(turns: &[Turn], own: &[Message]) -> Vec<Message> {
    let is_instruction = |message: &&Message| matches!(message, Message::System { .. });
    let mut history = history_of(turns, own);
    bound_images(&mut history);
    history.extend(own.iter().filter(is_instruction).cloned());
    history
}

/// Puts names in the place of the oldest images beyond the most of one request: providers refuse more.
fn bound_images(history: &mut [Message]) {
    let mut room = Some(MOST_IMAGES);
    for message in history.iter_mut().rev() {
        room = room.and_then(|room| room.checked_sub(message.images()));
        if let (None, Message::User { content }) = (room, message) {
            *content = content.without_images();
        }
    }
}

/// What was said in these turns, as a history in front of a run. Calls that nobody answered are answered,
/// unless `own`, which the caller says now, begins with the answers.
fn history_of(turns: &[Turn], own: &[Message]) -> Vec<Message> {
    let mut history: Vec<Message> = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let said = turns.iter().flat_map(|turn| &turn.messages).chain(own);
    for message in said {
        match message {
            Message::System { .. } => continue,
            Message::Tool { tool_call_id, .. } => {
                let Some(place) = open.iter().position(|(id, _)| id == tool_call_id) else { continue };
                open.remove(place);
            }
            Message::User { .. } | Message::Assistant { .. } => {
                history.extend(open.drain(..).map(unanswered));
                if let Message::Assistant { tool_calls, .. } = message {
                    open = tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
                }
            }
        }
        history.push(message.clone());
    }
    history.extend(open.drain(..).map(unanswered));
    history
}

fn unanswered((tool_call_id, name): (String, String)) -> Message {
    Message::Tool { tool_call_id, name, content: UNANSWERED.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_core::testing::{check_conversation, reply, user};
    use agent_core::words::{ContentPart, Image, ToolCall, UserContent};
    use serde_json::json;

    use super::*;

    fn calls(id: &str) -> Message {
        let call = ToolCall { id: id.into(), name: "f".into(), arguments: json!({}) };
        Message::Assistant { content: String::new(), tool_calls: vec![call] }
    }

    fn answers(id: &str) -> Message {
        Message::Tool { tool_call_id: id.into(), name: "f".into(), content: "1".into() }
    }

    fn turn(id: &str, messages: Vec<Message>) -> Turn {
        Turn { id: id.into(), run_id: format!("run_{id}"), at: 1, messages, ..Turn::default() }
    }

    fn ids(turns: &[Turn]) -> Vec<&str> {
        turns.iter().map(|turn| turn.id.as_str()).collect()
    }

    #[test]
    fn the_oldest_turns_go_when_there_are_too_many() {
        let mut turns = vec![];
        for number in 0..=MOST_TURNS {
            turns = appended(turns, turn(&number.to_string(), vec![user("q"), reply("a")]));
        }
        assert_eq!((turns.len(), ids(&turns)[0]), (MOST_TURNS, "1"));
    }

    #[test]
    fn the_oldest_turns_go_when_they_are_too_large_and_the_newest_stays() {
        let third = "x".repeat(MOST_CONVERSATION_BYTES / 3);
        let mut turns = vec![];
        for id in ["a", "b", "c"] {
            turns = appended(turns, turn(id, vec![user(&third), reply("a")]));
        }
        assert_eq!(ids(&turns), ["b", "c"]);
        let huge = "é".repeat(MOST_CONVERSATION_BYTES);
        let transcript = vec![user(&huge), calls("1"), answers("1"), reply(&huge)];
        turns = appended(turns, turn("d", transcript));
        let newest = turns.last().unwrap();
        assert_eq!((newest.id.as_str(), newest.messages.len()), ("d", 2));
        assert!(turns.iter().map(turn_bytes).sum::<usize>() <= MOST_CONVERSATION_BYTES);
    }

    #[test]
    fn images_go_before_words_the_oldest_first() {
        let image = |bytes: usize| {
            let url = format!("data:image/png;base64,{}", "A".repeat(bytes / 4 * 4));
            let parts = vec![
                ContentPart::Text { text: "which?".into() },
                ContentPart::Image(Image::new(&url, None).unwrap()),
            ];
            Message::User { content: UserContent::of_parts(parts) }
        };
        let images = |turns: &[Turn]| turns.iter().map(has_images).collect::<Vec<_>>();
        let third = MOST_CONVERSATION_BYTES / 3;
        let mut turns = vec![];
        for id in ["a", "b", "c", "d"] {
            turns = appended(turns, turn(id, vec![image(third), reply("a")]));
        }
        assert_eq!((ids(&turns), images(&turns)), (vec!["a", "b", "c", "d"], vec![false, false, true, true]));
        assert_eq!(turns[0].messages[0], user("which?\n[image image/png, 64 KiB]"));
        // Too large by itself.
        turns = appended(turns, turn("e", vec![image(2 * third), reply("a")]));
        assert_eq!(turns[4].messages, [user("which?\n[image image/png, 128 KiB]"), reply("a")]);
        assert_eq!(images(&turns), [false, false, true, true, false]);
    }

    #[test]
    fn the_oldest_images_beyond_those_of_one_request_are_read_as_names() {
        let image = || ContentPart::Image(Image::new("https://example.com/a.png", None).unwrap());
        let shown = |images: usize| {
            let parts = (0..images).map(|_| image()).collect();
            Message::User { content: UserContent::of_parts(parts) }
        };
        let kept = [turn("a", vec![shown(1), reply("a")]), turn("b", vec![shown(MOST_IMAGES - 2)])];
        let images = |own| in_front(&kept, &[own]).iter().map(Message::images).collect::<Vec<_>>();
        assert_eq!(images(shown(1)), [1, 0, MOST_IMAGES - 2, 1]);
        assert_eq!(images(shown(2)), [0, 0, MOST_IMAGES - 2, 2]);
        assert_eq!(images(shown(3)), [0, 0, 0, 3]);
    }

    #[test]
    fn an_answer_goes_with_its_call() {
        let third = "x".repeat(MOST_CONVERSATION_BYTES / 3);
        let mut turns = appended(vec![], turn("a", vec![user(&third), calls("1")]));
        turns = appended(turns, turn("b", vec![answers("1"), reply("done")]));
        turns = appended(turns, turn("c", vec![user(&third), reply("a")]));
        assert_eq!(ids(&turns), ["a", "b", "c"]);
        turns = appended(turns, turn("d", vec![user(&third), reply("a")]));
        assert_eq!(ids(&turns), ["c", "d"]);
    }

    #[test]
    fn a_history_has_no_call_without_an_answer() {
        let open = [turn("a", vec![user("q"), calls("1")])];
        let own = [answers("1")];
        assert_eq!(history_of(&open, &own), [user("q"), calls("1"), answers("1")]);
        for (own, length) in [(vec![], 3), (vec![user("never mind")], 4), (vec![answers("2")], 3)] {
            let history = history_of(&open, &own);
            check_conversation(&history);
            assert_eq!(history.len(), length, "{history:?}");
            let Some(Message::Tool { tool_call_id, content, .. }) = history.get(2) else {
                panic!("{history:?}")
            };
            assert_eq!((tool_call_id.as_str(), content.as_str()), ("1", UNANSWERED));
        }
        assert_eq!(history_of(&[], &[]), []);
        // The run has answered the call of its own tool, and its caller answers the other one.
        let call = |id: &str| ToolCall { id: id.into(), name: "f".into(), arguments: json!({}) };
        let both = Message::Assistant { content: String::new(), tool_calls: vec![call("1"), call("2")] };
        let open = [turn("a", vec![user("q"), both.clone(), answers("2")])];
        assert_eq!(history_of(&open, &[answers("1")]), [user("q"), both, answers("2"), answers("1")]);
    }

    #[test]
    fn replies_that_were_corrected_and_the_corrections_are_nothing_that_was_said() {
        let transcript =
            [user("1+2?"), reply("It is 3."), user("not JSON"), reply("{}"), user("no sum"), reply("3")];
        let turn = said(&[user("hi")], &transcript);
        assert_eq!((turn.messages, turn.asked), (vec![user("hi"), user("1+2?"), reply("3")], Some(2)));
    }

    #[test]
    fn a_turn_has_no_instructions() {
        let told = Message::System { content: "be kind".into() };
        let turn = said(&[told.clone(), answers("1")], &[reply("a")]);
        assert_eq!((turn.messages, turn.asked), (vec![answers("1"), reply("a")], Some(1)));
        let turn = said(&[told, user("a"), reply("b")], &[user("c"), reply("d")]);
        assert_eq!((turn.messages.len(), turn.asked), (4, Some(3)));
    }

    #[test]
    fn the_newest_turn_has_the_metadata_and_one_that_says_nothing_goes() {
        let metadata = BTreeMap::from([("order".to_owned(), "4711".to_owned())]);
        let begun = Turn { metadata: metadata.clone(), ..turn("begun", vec![]) };
        let mut turns = appended(vec![], begun);
        assert_eq!((ids(&turns), &turns[0].metadata), (vec!["begun"], &metadata));
        turns = appended(turns, turn("a", vec![user("q"), reply("a")]));
        turns = appended(turns, turn("b", vec![user("q"), reply("a")]));
        assert_eq!(ids(&turns), ["a", "b"]);
        assert_eq!([&turns[0].metadata, &turns[1].metadata], [&BTreeMap::new(), &metadata]);
        // Beside a turn that is as large as may be.
        let mut full = turn("c", vec![user("q"), reply(""), reply("a")]);
        full.messages[1] = reply(&"x".repeat(MOST_TURN_BYTES - turn_bytes(&full)));
        assert_eq!(turn_bytes(&full), MOST_TURN_BYTES);
        turns = appended(turns, Turn { metadata, ..full.clone() });
        assert_eq!(turns[2].messages, full.messages);
    }
}
