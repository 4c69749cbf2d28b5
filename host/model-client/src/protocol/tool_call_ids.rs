//! Ids and names of tool calls. A provider makes them and gets them back, or the other provider does after a
//! fallback, and each accepts other characters and lengths.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use agent_core::words::Message;

/// The longest id of a tool call that OpenAI takes.
pub(crate) const LONGEST_ID: usize = 40;

/// The longest name of a tool that both providers take.
const LONGEST_NAME: usize = 64;

/// Gives every tool call of a reply an id that no other call of the conversation has.
///
/// Servers that imitate a provider leave ids out, repeat one within a reply, or count from zero in each
/// reply. But a tool's answer is matched to its call by id, and Anthropic refuses a conversation with the
/// same id twice.
#[derive(Debug)]
pub(crate) struct CallIds<'a> {
    taken: HashSet<Cow<'a, str>>,
}

impl<'a> CallIds<'a> {
    /// Starts from the ids that a conversation holds already.
    pub(crate) fn after(messages: &'a [Message]) -> Self {
        let mut taken = HashSet::new();
        for message in messages {
            if let Message::Assistant { tool_calls, .. } = message {
                taken.extend(tool_calls.iter().map(|call| Cow::Borrowed(call.id.as_str())));
            }
        }
        Self { taken }
    }

    /// The id that the server gives if it is neither blank nor taken, else the first free `call_<n>`.
    pub(crate) fn claim(&mut self, offered: Option<String>) -> String {
        let usable = |id: &String| !id.trim().is_empty() && !self.taken.contains(id.as_str());
        let id = offered.filter(usable).unwrap_or_else(|| {
            let mut number = self.taken.len() + 1;
            while self.taken.contains(format!("call_{number}").as_str()) {
                number += 1;
            }
            format!("call_{number}")
        });
        self.taken.insert(Cow::Owned(id.clone()));
        id
    }
}

/// `id` if it `fits`, else a hash of it. The same id always gives the same hash, so that calls and their
/// answers still match.
pub(crate) fn portable_id(id: &str, fits: impl FnOnce(&str) -> bool) -> Cow<'_, str> {
    if fits(id) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{:016x}", hash(id)))
}

/// `id` if it has nine letters and digits, as Mistral demands, else a hash of it that has.
pub(crate) fn nine_characters(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut digits = format!("{:016x}", hash(id));
    digits.truncate(9);
    Cow::Owned(digits)
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// A tool's name as a model wrote it, changed into one that every provider accepts. Models invent names such
/// as `functions.add`; the run answers them with an error, and the next request repeats the name.
pub(crate) fn portable_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        Cow::Borrowed("unnamed")
    } else if name.len() <= LONGEST_NAME && name.chars().all(fits) {
        Cow::Borrowed(name)
    } else {
        let mended = name.chars().take(LONGEST_NAME).map(|c| if fits(c) { c } else { '_' });
        Cow::Owned(mended.collect())
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolCall;
    use serde_json::json;

    use super::*;

    fn asked(ids: &[&str]) -> Message {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "t".into(), arguments: json!({}) };
        Message::Assistant { content: String::new(), tool_calls: ids.iter().map(call).collect() }
    }

    #[test]
    fn ids_are_unique_in_the_whole_conversation() {
        let messages = [asked(&["a", "call_3"])];
        let mut ids = CallIds::after(&messages);
        let claimed = [Some("b"), Some("b"), Some("a"), None, Some(" ")]
            .map(|offered| ids.claim(offered.map(str::to_owned)));
        assert_eq!(claimed, ["b", "call_4", "call_5", "call_6", "call_7"]);
        let mut ids = CallIds::after(&[]);
        assert_eq!(ids.claim(None), "call_1");
    }

    #[test]
    fn an_id_that_does_not_fit_is_replaced_by_the_same_one_each_time() {
        let fits = |id: &str| id.len() <= LONGEST_ID;
        let long = "a".repeat(41);
        assert_eq!(portable_id("short", fits), "short");
        assert_eq!(portable_id(&long, fits), portable_id(&long, fits));
        assert_ne!(portable_id(&long, fits), portable_id(&"b".repeat(41), fits));
        assert!(fits(&portable_id(&long, fits)));
    }

    #[test]
    fn ids_of_nine_characters_are_made_of_others() {
        assert_eq!(nine_characters("D681PevKs"), "D681PevKs");
        for id in ["call_1234", "call_1", "x", "ids of elsewhere"] {
            let short = nine_characters(id);
            assert!(short.len() == 9 && short.chars().all(|c| c.is_ascii_alphanumeric()), "{short}");
            assert_eq!(nine_characters(id), short);
        }
        assert_ne!(nine_characters("call_1"), nine_characters("call_2"));
    }

    #[test]
    fn names_are_mended() {
        assert_eq!(portable_name("add"), "add");
        assert_eq!(portable_name("functions.add it"), "functions_add_it");
        assert_eq!(portable_name(""), "unnamed");
        assert_eq!(portable_name(&"é".repeat(99)), "_".repeat(64));
    }
}
