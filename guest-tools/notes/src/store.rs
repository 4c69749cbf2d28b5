//! Notes as values: one under each title, changed only by compare-and-swap.

use agent_tool_sdk::{Failure, clock, key_value};
use serde::{Deserialize, Serialize};

/// What the keys of notes begin with.
const PREFIX: &str = "note/";

/// The longest title, in bytes. It has to fit into a key.
const LONGEST_TITLE: usize = 200;

/// The longest text, in bytes.
const LONGEST_TEXT: usize = 8 << 10;

/// The most notes that are kept: a search reads all of them.
const MOST_NOTES: usize = 200;

/// The code of the failure for a note that cannot be read.
pub(crate) const DAMAGED: &str = "damaged";

/// A note as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) written_ms: u64,
}

/// What a note is found by: one line without spaces around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title(String);

impl Title {
    /// Reads a title as a model wrote it.
    pub(crate) fn read(written: &str) -> Result<Self, Failure> {
        let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
        if title.is_empty() {
            return Err(Failure::invalid_arguments("`title` is blank: give the note a short title"));
        }
        if title.len() > LONGEST_TITLE {
            let length = title.len();
            return Err(Failure::invalid_arguments(format!(
                "`title` has {length} bytes and may have {LONGEST_TITLE}: give a shorter one"
            )));
        }
        Ok(Self(title))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }
}

/// The note of that title.
pub(crate) fn find(title: &Title) -> Result<Option<Note>, Failure> {
    key_value::get(&title.key())?.map(|value| read_note(title, &value)).transpose()
}

/// All titles, in the order of their bytes.
pub(crate) fn list_titles() -> Result<Vec<Title>, Failure> {
    let most = u32::try_from(MOST_NOTES).unwrap_or(key_value::MOST_KEYS);
    let keys = key_value::list_keys(PREFIX, None, most)?;
    Ok(keys.iter().filter_map(|key| key.strip_prefix(PREFIX)).map(|title| Title(title.to_owned())).collect())
}

/// Writes what `change` makes of the text that is there, whoever else writes at the same time. Returns the
/// new text.
pub(crate) fn change(
    title: &Title,
    mut change: impl FnMut(Option<&str>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let key = title.key();
    let mut written = String::new();
    key_value::update(&key, |present| {
        let present = present.map(|value| read_note(title, value)).transpose()?;
        if present.is_none() && list_titles()?.len() >= MOST_NOTES {
            return Err(Failure::new(
                key_value::code::QUOTA_EXCEEDED,
                format!("there are {MOST_NOTES} notes already: delete one first, or append to one"),
            ));
        }
        let text = change(present.as_ref().map(|note| note.text.as_str()))?;
        if text.len() > LONGEST_TEXT {
            let length = text.len();
            return Err(Failure::invalid_arguments(format!(
                "the note would have {length} bytes and may have {LONGEST_TEXT}: shorten it or split it over two titles"
            )));
        }
        written.clone_from(&text);
        let note = Note { text, written_ms: clock::now_ms() };
        serde_json::to_vec(&note).map_err(|problem| Failure::new("internal", problem.to_string()))
    })
    .map_err(say_what_helps)?;
    Ok(written)
}

/// Removes a note. False if there is none.
pub(crate) fn remove(title: &Title) -> Result<bool, Failure> {
    key_value::delete(&title.key())
}

/// There is no note of that title: says which there are.
pub(crate) fn refuse_missing(title: &Title) -> Result<Failure, Failure> {
    /// Titles that are named.
    const NAMED: usize = 10;
    let titles = list_titles()?;
    let same = |other: &&Title| other.0.to_lowercase() == title.0.to_lowercase();
    let title = title.as_str();
    Ok(Failure::not_found(match titles.iter().find(same) {
        Some(near) => format!("there is no note `{title}`, but one `{}`", near.0),
        None if titles.is_empty() => format!("there is no note `{title}`; there are no notes yet"),
        None => {
            let named: Vec<_> = titles.iter().take(NAMED).map(|title| format!("`{}`", title.0)).collect();
            let more = if titles.len() > NAMED { " and more" } else { "" };
            format!("there is no note `{title}`, only: {}{more}", named.join(", "))
        }
    }))
}

fn read_note(title: &Title, value: &[u8]) -> Result<Note, Failure> {
    serde_json::from_slice(value).map_err(|_| {
        let title = title.as_str();
        Failure::new(DAMAGED, format!("the note `{title}` cannot be read: delete it and save it again"))
    })
}

fn say_what_helps(mut failure: Failure) -> Failure {
    if failure.code == key_value::code::QUOTA_EXCEEDED && !failure.message.contains("delete") {
        failure.message.push_str("; delete notes that are no longer needed");
    }
    failure
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::key_value;

    use super::{Note, Title, change, find, list_titles, refuse_missing};

    fn title(text: &str) -> Title {
        Title::read(text).unwrap()
    }

    #[test]
    fn titles_are_one_line_of_bounded_length() {
        assert_eq!(title("  Tea \n time ").as_str(), "Tea time");
        for wrong in ["", " \t", &"é".repeat(101)] {
            assert_eq!(Title::read(wrong).unwrap_err().code, "invalid-arguments");
        }
        assert!(title(&"t".repeat(200)).key().len() <= key_value::LONGEST_KEY);
    }

    #[test]
    fn what_two_write_at_the_same_time_is_all_there() {
        let mut times = 0;
        key_value::double::act_before_swaps(move || {
            times += 1;
            if times == 1 {
                let note = Note { text: "theirs".to_owned(), written_ms: 0 };
                key_value::set("note/a", &serde_json::to_vec(&note).unwrap(), None).unwrap();
            }
        });
        let append = |present: Option<&str>| Ok(format!("{}+mine", present.unwrap_or_default()));
        assert_eq!(change(&title("a"), append).unwrap(), "theirs+mine");
        assert_eq!(find(&title("a")).unwrap().unwrap().text, "theirs+mine");
    }

    #[test]
    fn sizes_and_counts_are_bounded() {
        let long = change(&title("a"), |_| Ok("x".repeat(8193))).unwrap_err();
        assert_eq!(long.code, "invalid-arguments");
        key_value::double::limit_bytes(1 << 20);
        for number in 0..200 {
            change(&title(&number.to_string()), |_| Ok(String::new())).unwrap();
        }
        let many = change(&title("one more"), |_| Ok(String::new())).unwrap_err();
        assert!(many.message.starts_with("there are 200 notes already"), "{many:?}");
        change(&title("7"), |_| Ok("again".to_owned())).unwrap();
        key_value::double::limit_bytes(100);
        let full = change(&title("8"), |_| Ok("x".repeat(100))).unwrap_err();
        assert!(full.code == "quota-exceeded" && full.message.ends_with("no longer needed"), "{full:?}");
    }

    #[test]
    fn a_missing_note_is_refused_with_those_that_are_there() {
        let refusal = |text: &str| refuse_missing(&title(text)).unwrap().message;
        assert_eq!(refusal("tea"), "there is no note `tea`; there are no notes yet");
        change(&title("Tea"), |_| Ok(String::new())).unwrap();
        assert_eq!(refusal("tea"), "there is no note `tea`, but one `Tea`");
        assert_eq!(refusal("milk"), "there is no note `milk`, only: `Tea`");
        key_value::set("note/Tea", b"{", None).unwrap();
        assert_eq!(find(&title("Tea")).unwrap_err().code, "damaged");
        assert_eq!(list_titles().unwrap(), [title("Tea")]);
    }
}
