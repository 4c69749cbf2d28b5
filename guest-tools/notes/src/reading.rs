//! The tool `read_notes`: one note whole, those that have the words of a search, or the titles of all.

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{self, Note, Title};

/// The most notes that a search returns.
const MOST_FOUND: usize = 20;

/// Characters of a note that a search shows, around the first word it found.
const EXCERPT: usize = 240;

/// The most words of a search that count.
const MOST_WORDS: usize = 20;

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Reads one note whole
    title: Option<String>,
    /// Finds notes with all these words
    search: Option<String>,
}

/// What there is.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// Titles of all notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    titles: Option<Vec<String>>,
    /// The note of that title, or excerpts of those found.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<Entry>>,
    /// Present and true when there were more than 20.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// One note.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    title: String,
    text: String,
    /// Day of the last change, UTC.
    written: String,
}

/// Reads notes.
pub(crate) fn read_notes(wanted: Wanted) -> Result<Found, Failure> {
    let stated = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    match (stated(wanted.title), stated(wanted.search)) {
        (None, None) => {
            let titles = store::list_titles()?.iter().map(|title| title.as_str().to_owned()).collect();
            Ok(Found { titles: Some(titles), ..Found::default() })
        }
        (Some(title), None) => {
            let title = Title::read(&title)?;
            let Some(note) = store::find(&title)? else { return Err(store::refuse_missing(&title)?) };
            let entry = Entry::of(&title, &note, note.text.clone());
            Ok(Found { notes: Some(vec![entry]), ..Found::default() })
        }
        (None, Some(words)) => search(&words),
        (Some(_), Some(_)) => {
            Err(Failure::invalid_arguments("give `title` for one note or `search` for several, not both"))
        }
    }
}

fn search(words: &str) -> Result<Found, Failure> {
    let words: Vec<String> = words.split_whitespace().take(MOST_WORDS).map(str::to_lowercase).collect();
    let mut notes = Vec::new();
    for title in store::list_titles()? {
        let note = match store::find(&title) {
            Ok(Some(note)) => note,
            // Somebody deleted it meanwhile.
            Ok(None) => continue,
            // One that cannot be read hides no others.
            Err(failure) if failure.code == store::DAMAGED => continue,
            Err(failure) => return Err(failure),
        };
        let text = note.text.to_lowercase();
        let heading = title.as_str().to_lowercase();
        if !words.iter().all(|word| text.contains(word.as_str()) || heading.contains(word.as_str())) {
            continue;
        }
        if notes.len() == MOST_FOUND {
            return Ok(Found { notes: Some(notes), truncated: true, ..Found::default() });
        }
        let first = words.iter().find_map(|word| text.find(word.as_str()));
        let at = first.map_or(0, |byte| text.get(..byte).map_or(0, |before| before.chars().count()));
        notes.push(Entry::of(&title, &note, excerpt(&note.text, at)));
    }
    Ok(Found { notes: Some(notes), ..Found::default() })
}

/// The surroundings of a character.
fn excerpt(text: &str, at: usize) -> String {
    let from = at.saturating_sub(EXCERPT / 4);
    let mut shown: String = text.chars().skip(from).take(EXCERPT).collect();
    if from > 0 {
        shown.insert(0, '…');
    }
    if text.chars().nth(from + EXCERPT).is_some() {
        shown.push('…');
    }
    shown
}

impl Entry {
    fn of(title: &Title, note: &Note, text: String) -> Self {
        Self { title: title.as_str().to_owned(), text, written: write_day(note.written_ms) }
    }
}

/// The day of a time in the Gregorian calendar, after Howard Hinnant's `civil_from_days`.
fn write_day(ms: u64) -> String {
    let days = ms / 86_400_000 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::Component as _;
    use proptest::prelude::*;

    use super::{excerpt, write_day};
    use crate::Tools;
    use crate::store::{Title, change};

    fn note(title: &str, text: &str) {
        change(&Title::read(title).unwrap(), |_| Ok(text.to_owned())).unwrap();
    }

    fn read(arguments: &str) -> serde_json::Value {
        let found = Tools::call("read_notes".to_owned(), arguments.to_owned()).unwrap();
        let mut found: serde_json::Value = serde_json::from_str(&found.value).unwrap();
        for note in found.get_mut("notes").and_then(serde_json::Value::as_array_mut).into_iter().flatten() {
            let written = note.as_object_mut().unwrap().remove("written").unwrap();
            assert_eq!(written.as_str().unwrap().len(), 10);
        }
        found
    }

    #[test]
    fn notes_are_listed_read_and_searched() {
        assert_eq!(read("{}").to_string(), r#"{"titles":[]}"#);
        note("Tea", "Likes GREEN tea without milk");
        note("Birthday", "14 July");
        assert_eq!(read("{}").to_string(), r#"{"titles":["Birthday","Tea"]}"#);
        let tea = r#"{"notes":[{"text":"Likes GREEN tea without milk","title":"Tea"}]}"#;
        for arguments in
            [r#"{"title":" Tea"}"#, r#"{"search":"milk green"}"#, r#"{"title":"","search":"TEA"}"#]
        {
            assert_eq!(read(arguments).to_string(), tea, "{arguments}");
        }
        assert_eq!(read(r#"{"search":"coffee"}"#).to_string(), r#"{"notes":[]}"#);
    }

    #[test]
    fn a_search_returns_twenty_at_most() {
        for number in 0..21 {
            note(&number.to_string(), "same");
        }
        let found = read(r#"{"search":"same"}"#);
        assert_eq!((found["notes"].as_array().unwrap().len(), &found["truncated"]), (20, &true.into()));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (ms, day) in [
            (0, "1970-01-01"),
            (951_782_399_999, "2000-02-28"),
            (951_782_400_000, "2000-02-29"),
            (951_868_800_000, "2000-03-01"),
            (1_795_305_600_000, "2026-11-22"),
            (4_107_542_400_000, "2100-03-01"),
        ] {
            assert_eq!(write_day(ms), day);
        }
    }

    #[test]
    fn an_excerpt_says_where_it_leaves_out() {
        let text = "é".repeat(300);
        assert_eq!(excerpt("short", 3), "short");
        assert_eq!(excerpt(&text, 0), format!("{}…", "é".repeat(240)));
        assert_eq!(excerpt(&text, 299), format!("…{}", "é".repeat(61)));
    }

    proptest! {
        #[test]
        fn any_search_ends(text in ".{0,80}", words in "\\PC{0,20}") {
            note("a", if text.trim().is_empty() { "x" } else { &text });
            let arguments = serde_json::json!({ "search": words }).to_string();
            prop_assert!(Tools::call("read_notes".to_owned(), arguments).is_ok());
        }
    }
}
