//! What stands before a run's first reply: the deployment's instructions, the caller's, the history, and the
//! caller's text.
//!
//! A history that the token budget has no room for is shortened once, before the run begins, and the task
//! holds what was kept ([`kept_history`]). So a journal folds to the same conversation with whatever tools
//! are loaded when it is read.

use std::collections::{BTreeMap, VecDeque};

use super::budget;
use crate::words::{Catalog, Message, RunLimits, Task};

/// The first messages of a run, and how many of them stood there before it.
///
/// All instructions come first, those of the deployment before the caller's: providers differ in where else
/// they may stand.
pub(super) fn begin(task: &Task) -> (Vec<Message>, usize) {
    let own = task.instructions.iter().map(|content| Message::System { content: content.clone() });
    let history = &task.options.history;
    let (instructions, mut said): (Vec<_>, Vec<_>) = history.iter().cloned().partition(is_instruction);
    order_answers(&mut said);
    // Providers want something to be answered; a run of one call asks none.
    let is_silent = said.is_empty() && task.options.call.is_none();
    let mut messages: Vec<_> = own.chain(instructions).chain(said).collect();
    let before = messages.len();
    if !task.input.is_empty() || is_silent {
        messages.push(Message::User { content: task.input.clone().into() });
    }
    (messages, before)
}

/// Puts the answers behind each reply into the order of its calls. Callers send them in any order, and behind
/// those that the run before gave itself; templates of some models match them to the calls by their order.
fn order_answers(said: &mut [Message]) {
    for reply in said.chunk_by_mut(|_, next| matches!(next, Message::Tool { .. })) {
        let Some((Message::Assistant { tool_calls, .. }, answers)) = reply.split_first_mut() else {
            continue;
        };
        let mut places: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
        for (place, call) in tool_calls.iter().enumerate() {
            places.entry(call.id.as_str()).or_default().push_back(place);
        }
        answers.sort_by_cached_key(|answer| {
            let Message::Tool { tool_call_id, .. } = answer else { return usize::MAX };
            places.get_mut(tool_call_id.as_str()).and_then(VecDeque::pop_front).unwrap_or(usize::MAX)
        });
    }
}

/// The history that a run is begun with. While its first model call would be its last affordable one, the
/// oldest turn is left out: a message of the user with all that follows up to the user's next one, so that no
/// tool call is parted from its answer. Instructions stay, and so does the newest message of the user, which
/// is `input` or, without one, the last in the history.
pub fn kept_history(
    history: Vec<Message>,
    instructions: Option<&str>,
    input: &str,
    catalog: &Catalog,
    limits: RunLimits,
) -> Vec<Message> {
    if history.is_empty() {
        return history;
    }
    let about = |message: &Message| budget::estimate_messages(std::slice::from_ref(message));
    let system = |content: &str| Message::System { content: content.to_owned() };
    let fixed = instructions.map(|text| about(&system(text))).unwrap_or_default();
    let asked = if input.is_empty() { 0 } else { about(&system(input)) };
    let tools = budget::estimate_first_input(catalog.prompt_bytes(), &[]);
    let mut tokens = history.iter().map(about).fold(tools + fixed + asked, u64::saturating_add);
    // The turn that is answered is the last one, and there is none in the history if the input is.
    let newest = if input.is_empty() {
        history.iter().rposition(is_of_user).unwrap_or_default()
    } else {
        history.len()
    };
    let mut from = 0;
    while from < newest && budget::is_last(limits.tokens, 0, tokens) {
        let next = (from + 1..newest).find(|index| history.get(*index).is_some_and(is_of_user));
        let turn = history.get(from..next.unwrap_or(newest)).unwrap_or_default();
        let left_out = turn.iter().filter(|message| !is_instruction(message)).map(about);
        tokens = left_out.fold(tokens, u64::saturating_sub);
        from = next.unwrap_or(newest);
    }
    let kept = history.into_iter().enumerate();
    kept.filter(|(index, message)| *index >= from || is_instruction(message)).map(|(_, kept)| kept).collect()
}

fn is_instruction(message: &Message) -> bool {
    matches!(message, Message::System { .. })
}

fn is_of_user(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::words::{ContentPart, Image, Options, ToolCall, UserContent};

    /// `s`, `u`, `a`, `c` (calls a tool), `t` (its answer), each with its own text of about 100 tokens.
    fn history(kinds: &str) -> Vec<Message> {
        let message = |(index, kind): (usize, char)| {
            let content = format!("{index}{}", "x".repeat(290));
            match kind {
                's' => Message::System { content },
                'u' => Message::User { content: content.into() },
                'a' => Message::Assistant { content, tool_calls: vec![] },
                'c' => {
                    let call = ToolCall { id: "1".into(), name: "add".into(), arguments: json!({}) };
                    Message::Assistant { content, tool_calls: vec![call] }
                }
                't' => Message::Tool { tool_call_id: "1".into(), name: "add".into(), content },
                _ => panic!("{kind}"),
            }
        };
        kinds.chars().enumerate().map(message).collect()
    }

    fn kinds(messages: &[Message]) -> String {
        let kind = |message: &Message| match message {
            Message::System { .. } => 's',
            Message::User { .. } => 'u',
            Message::Assistant { tool_calls, .. } if tool_calls.is_empty() => 'a',
            Message::Assistant { .. } => 'c',
            Message::Tool { .. } => 't',
        };
        messages.iter().map(kind).collect()
    }

    /// Two closing replies and the first of them again: what `is_last` keeps free.
    const CLOSING: u64 = 3 * 256;

    #[test]
    fn whole_turns_are_left_out_from_the_oldest_on() {
        for (before, input, room, kept) in [
            // All of it fits.
            ("uaua", "q", 1_000, "uaua"),
            // One turn too many, and two.
            ("uaua", "q", 350, "ua"),
            ("uaua", "q", 50, ""),
            // Instructions stay wherever they stand, and cost what they cost.
            ("suasua", "q", 450, "ssua"),
            ("suasua", "q", 10, "ss"),
            // A call goes with its answer.
            ("uctaua", "q", 350, "ua"),
            ("ucta", "q", 350, ""),
            // What comes before the first user is a turn too.
            ("aua", "q", 250, "ua"),
            ("", "q", 1, ""),
            // Without an input the newest message of the user stays with all that follows.
            ("uauct", "", 350, "uct"),
            ("uauct", "", 10, "uct"),
            ("uau", "", 10, "u"),
        ] {
            let limits = RunLimits { tokens: 2 * (room + 10) + CLOSING, ..RunLimits::default() };
            let left = kept_history(history(before), None, input, &Catalog::default(), limits);
            assert_eq!(kinds(&left), kept, "{before:?} {input:?} {room}");
        }
    }

    #[test]
    fn the_newest_turns_are_those_that_are_kept() {
        let all = history("uauaua");
        let limits = RunLimits { tokens: 2 * 350 + CLOSING, ..RunLimits::default() };
        let kept = kept_history(all.clone(), None, "q", &Catalog::default(), limits);
        assert_eq!(kept, all[4..]);
        // The deployment's instructions take the room of a turn.
        let instructions = "x".repeat(600);
        let kept = kept_history(all, Some(&instructions), "q", &Catalog::default(), limits);
        assert_eq!(kept, []);
    }

    #[test]
    fn an_image_takes_the_room_of_an_image_and_not_of_its_base64() {
        let url = format!("data:image/png;base64,{}", "A".repeat(400_000));
        let image = ContentPart::Image(Image::new(&url, None).unwrap());
        let shown = Message::User { content: UserContent::of_parts(vec![image]) };
        let all = [vec![shown], history("aua")].concat();
        for (room, kept) in [(1_910, "uaua"), (1_800, "ua"), (0, "")] {
            let limits = RunLimits { tokens: 2 * (room + 10) + CLOSING, ..RunLimits::default() };
            let left = kept_history(all.clone(), None, "q", &Catalog::default(), limits);
            assert_eq!(kinds(&left), kept, "{room}");
            // As what the run answers it stays.
            let left = kept_history(all[..1].to_vec(), None, "", &Catalog::default(), limits);
            assert_eq!(left, all[..1]);
        }
    }

    fn task(instructions: Option<&str>, history: Vec<Message>, input: &str) -> Task {
        Task {
            instructions: instructions.map(str::to_owned),
            options: Options { history, ..Options::default() },
            ..crate::testing::task(input)
        }
    }

    #[test]
    fn answers_stand_in_the_order_of_their_calls() {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "f".into(), arguments: json!({}) };
        let calls = |ids: &[&str]| Message::Assistant {
            content: String::new(),
            tool_calls: ids.iter().map(call).collect(),
        };
        let answer = |id: &str, content: &str| crate::testing::answer(id, "f", content);
        let told = Message::System { content: "be kind".into() };
        let history = vec![
            calls(&["a", "b", "a"]),
            answer("b", "1"),
            told.clone(),
            answer("a", "2"),
            answer("a", "3"),
            calls(&["b", "c"]),
            answer("c", "4"),
            answer("b", "5"),
        ];
        let expected = [
            told,
            calls(&["a", "b", "a"]),
            answer("a", "2"),
            answer("b", "1"),
            answer("a", "3"),
            calls(&["b", "c"]),
            answer("b", "5"),
            answer("c", "4"),
        ];
        assert_eq!(begin(&task(None, history, "")).0, expected);
    }

    #[test]
    fn instructions_stand_before_what_was_said_and_the_input_is_last() {
        for (own, before, input, messages, stood) in [
            (None, "", "q", "u", 0),
            (None, "", "", "u", 0),
            (None, "s", "", "su", 1),
            (Some("be kind"), "", "q", "su", 1),
            (Some("be kind"), "uasua", "q", "ssuauau", 6),
            (None, "uct", "", "uct", 3),
        ] {
            let (begun, count) = begin(&task(own, history(before), input));
            assert_eq!((kinds(&begun).as_str(), count), (messages, stood), "{own:?} {before:?}");
            if let Some(own) = own {
                assert_eq!(begun[0], Message::System { content: own.into() });
            }
        }
    }
}
