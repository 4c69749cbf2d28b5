//! Takes values out of tables and collects what is wrong with them, so that all of it is said at once.
//!
//! A method that gives nothing has either found nothing or reported why. Values of secrets and of `config`
//! are never shown: somebody may have written the secret itself where its name belongs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use agent_core::nearest_word::nearest_word;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{MOST_LISTED, Problem, Problems};
use crate::text::brief;

const MOST_ENTRIES: usize = 1000;

const MOST_TEXT_BYTES: usize = 8 << 10;

/// Collects problems of one text.
pub(super) struct Reader<'t> {
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    problems: Vec<(usize, Problem)>,
    others: usize,
    /// Absent while the text is TOML. Else the lines that are not: what is missing may stand in them, and
    /// what is wrong in them has been said.
    broken: BTreeSet<usize>,
}

/// A text of the file and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

/// A table of the file and where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'t, 'i> {
    pub(super) keys: &'t DeTable<'i>,
    pub(super) at: usize,
}

/// Why a text is not allowed under a key.
pub(super) struct Refused<'a> {
    pub(super) key: &'a str,
    pub(super) why: &'a dyn std::fmt::Display,
    pub(super) allowed: &'a str,
}

/// A table of known keys.
#[derive(Clone)]
pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    pub(super) at: usize,
    /// Whether its texts may be shown.
    is_shown: bool,
    /// Keys that are probably meant by others, so that they are not said to be missing as well.
    misspelt: Vec<String>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        Self { text, lines, problems: vec![], others: 0, broken: BTreeSet::new() }
    }

    /// Something is wrong with what begins at `at`.
    pub(super) fn report(&mut self, at: usize, found: impl Into<String>, remedy: impl Into<String>) {
        self.push(at, found.into(), None, remedy.into());
    }

    /// Something is missing in what begins at `at`.
    pub(super) fn report_missing(&mut self, at: usize, found: impl Into<String>, remedy: impl Into<String>) {
        if self.broken.is_empty() {
            self.report(at, found, remedy);
        }
    }

    /// A word that is none of `words`: `found` says what and where. Gives the nearest one.
    pub(super) fn report_unknown(
        &mut self,
        at: usize,
        found: String,
        word: &str,
        words: &[&str],
    ) -> Option<String> {
        let nearest = nearest_word(word, words).map(str::to_owned);
        self.push(at, found, nearest.clone(), format!("allowed: {}", words.join(", ")));
        nearest
    }

    /// The text is no TOML there.
    pub(super) fn report_broken(&mut self, at: usize, message: &str) {
        self.report(at, message, "the file must be TOML 1.1 (https://toml.io)");
        let (line, _) = self.place(at);
        self.broken.insert(line);
    }

    fn push(&mut self, at: usize, found: String, nearest: Option<String>, remedy: String) {
        let (line, column) = self.place(at);
        if self.broken.contains(&line) {
            return;
        }
        // Not counted to the end: the rest of a file that is something else is of no interest.
        if self.problems.len() >= MOST_LISTED {
            self.others += 1;
            return;
        }
        self.problems.push((at, Problem { line, column, found, nearest, remedy }));
    }

    /// Line and column, from 1.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|begin| *begin <= at);
        let begin = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(begin..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// How many problems there are so far.
    pub(super) fn count(&self) -> usize {
        self.problems.len() + self.others
    }

    /// The value, if nothing was wrong.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Problems> {
        if self.count() == 0 {
            return Ok(value);
        }
        self.problems.sort_by_key(|(at, _)| *at);
        let listed = self.problems.into_iter().map(|(_, problem)| problem).collect();
        Err(Problems { listed, others: self.others })
    }
}

impl<'t, 'i> Section<'t, 'i> {
    /// Reports the keys that are not among `keys`. `place` is where the table stands, `in a component`.
    pub(super) fn open(reader: &mut Reader<'_>, table: Table<'t, 'i>, place: &str, keys: &[&str]) -> Self {
        let mut misspelt = vec![];
        for key in table.keys.keys() {
            let name: &str = key.get_ref();
            if !keys.contains(&name) {
                let found = format!("unknown key {} {place}", brief(name));
                misspelt.extend(reader.report_unknown(key.span().start, found, name, keys));
            }
        }
        Self { misspelt, ..Self::open_map(table) }
    }

    /// One whose keys may be anything.
    pub(super) fn open_map(table: Table<'t, 'i>) -> Self {
        Self { table: table.keys, at: table.at, is_shown: true, misspelt: vec![] }
    }

    /// The map, of which no text is shown.
    pub(super) fn hidden(&self) -> Self {
        Self { is_shown: false, ..self.clone() }
    }

    /// Whether the key is there, right or wrong or misspelt.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key) || self.misspelt.iter().any(|meant| meant == key)
    }

    /// Where the key's value begins.
    pub(super) fn at(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.at, |value| value.span().start)
    }

    /// Values and their keys, whatever they are called.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Word<'t>, &'t Spanned<DeValue<'i>>)> {
        let word = |key: &'t Spanned<_>| Word {
            text: std::convert::AsRef::<str>::as_ref(key.get_ref()),
            at: key.span().start,
        };
        self.table.iter().map(move |(key, value)| (word(key), value))
    }

    /// Whether the key's value is a table.
    pub(super) fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().is_table())
    }

    pub(super) fn text(&self, reader: &mut Reader<'_>, key: &str) -> Option<Word<'t>> {
        let value = self.table.get(key)?;
        self.read_text(reader, key, value)
    }

    /// The name of what the table is about, which has to have one; `allowed` says what may be one.
    pub(super) fn name(
        &self,
        reader: &mut Reader<'_>,
        of: &str,
        allowed: &str,
        is_name: impl FnOnce(&str) -> bool,
    ) -> Option<&'t str> {
        if !self.has("name") {
            let remedy = format!("add: name = \"…\", {allowed}");
            reader.report_missing(self.at, format!("the {of} has no name"), remedy);
        }
        let word = self.text(reader, "name")?;
        if !is_name(word.text) {
            self.refuse_text(reader, "name", word, allowed);
            return None;
        }
        Some(word.text)
    }

    /// `value` as the text of `key`.
    pub(super) fn read_text(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<Word<'t>> {
        let at = value.span().start;
        let Some(text) = value.get_ref().as_str() else {
            self.refuse(reader, key, value, "a text in quotes");
            return None;
        };
        if text.len() > MOST_TEXT_BYTES {
            reader.report(
                at,
                format!("{key}: found a text of {} bytes", text.len()),
                format!("allowed: up to {MOST_TEXT_BYTES} bytes"),
            );
            return None;
        }
        Some(Word { text, at })
    }

    /// A list of texts that is not empty. Those of another kind are reported and left out.
    pub(super) fn list(&self, reader: &mut Reader<'_>, key: &str) -> Option<Vec<Word<'t>>> {
        let value = self.table.get(key)?;
        let Some(entries) = value.get_ref().as_array() else {
            self.refuse(reader, key, value, "a list of texts in quotes, [\"…\"]");
            return None;
        };
        if entries.is_empty() || entries.len() > MOST_ENTRIES {
            let found = format!("{key}: found a list of {} texts", entries.len());
            reader.report(value.span().start, found, format!("allowed: 1 to {MOST_ENTRIES}, or no such key"));
            return None;
        }
        Some(entries.iter().filter_map(|entry| self.read_text(reader, key, entry)).collect())
    }

    /// One text, or a list of them.
    pub(super) fn one_or_more(&self, reader: &mut Reader<'_>, key: &str) -> Option<Vec<Word<'t>>> {
        if self.table.get(key)?.get_ref().is_array() {
            return self.list(reader, key);
        }
        self.text(reader, key).map(|word| vec![word])
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, reader: &mut Reader<'_>, key: &str) -> Option<bool> {
        let value = self.table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.refuse(reader, key, value, "true or false");
        }
        flag
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = self.table.get(key)?;
        let digits = value.get_ref().as_integer();
        let number = digits.and_then(|digits| u64::from_str_radix(digits.as_str(), digits.radix()).ok());
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            self.refuse(
                reader,
                key,
                value,
                &format!("a whole number from {} to {}", bounds.start(), bounds.end()),
            );
        }
        number
    }

    pub(super) fn table(&self, reader: &mut Reader<'_>, key: &str, written: &str) -> Option<Table<'t, 'i>> {
        let value = self.table.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.refuse(reader, key, value, written);
        }
        Some(Table { keys: table?, at: value.span().start })
    }

    /// The tables of that key, as `[[…]]` makes them.
    pub(super) fn tables(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        written: &str,
        most: usize,
    ) -> Vec<Table<'t, 'i>> {
        let Some(value) = self.table.get(key) else { return vec![] };
        let Some(entries) = value.get_ref().as_array() else {
            self.refuse(reader, key, value, written);
            return vec![];
        };
        if entries.len() > most {
            let found = format!("found {} of {written}", entries.len());
            reader.report(value.span().start, found, format!("allowed: up to {most}"));
            return vec![];
        }
        let mut tables = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.get_ref().as_table() {
                Some(keys) => tables.push(Table { keys, at: entry.span().start }),
                None => self.refuse(reader, key, entry, written),
            }
        }
        tables
    }

    /// The value is of another kind.
    fn refuse(&self, reader: &mut Reader<'_>, key: &str, value: &Spanned<DeValue<'i>>, allowed: &str) {
        let found = match value.get_ref() {
            DeValue::String(text) if self.is_shown => brief(text),
            DeValue::String(_) => "a text (not shown)".to_owned(),
            DeValue::Integer(number) if self.is_shown => format!("the number {}", cut(number.as_str())),
            DeValue::Integer(_) => "a number (not shown)".to_owned(),
            DeValue::Float(_) => "a number with a fraction".to_owned(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        reader.report(value.span().start, format!("{key}: found {found}"), format!("allowed: {allowed}"));
    }

    /// A text that is not one of those allowed.
    pub(super) fn refuse_text(&self, reader: &mut Reader<'_>, key: &str, word: Word<'_>, allowed: &str) {
        let found = if self.is_shown { brief(word.text) } else { "a text (not shown)".to_owned() };
        reader.report(word.at, format!("{key}: found {found}"), format!("allowed: {allowed}"));
    }

    /// A list of texts that are not empty.
    pub(super) fn names(&self, reader: &mut Reader<'_>, key: &str) -> Option<BTreeSet<String>> {
        let words = self.list(reader, key)?;
        for word in words.iter().filter(|word| word.text.is_empty()) {
            self.refuse_text(reader, key, *word, "texts that are not empty");
        }
        Some(words.into_iter().map(|word| word.text.to_owned()).collect())
    }

    /// A text that is not allowed, and why.
    pub(super) fn refuse_because(&self, reader: &mut Reader<'_>, word: Word<'_>, refused: &Refused<'_>) {
        let Refused { key, why, allowed } = refused;
        let found = if self.is_shown { brief(word.text) } else { "a text (not shown)".to_owned() };
        reader.report(word.at, format!("{key}: found {found}: {why}"), format!("allowed: {allowed}"));
    }
}

/// Enough of a number to know it again.
fn cut(digits: &str) -> String {
    const SHOWN: usize = 24;
    match digits.get(..SHOWN) {
        Some(first) if digits.len() > SHOWN => format!("{first}…"),
        _ => digits.to_owned(),
    }
}
