//! The attributes of a span or of an event. Their texts lie one behind the other in one string: an allocation
//! of its own for each was a good part of what a span cost.

use std::fmt::{self, Display, Write as _};
use std::ops::Range;

/// The longest text of an attribute, in bytes. What is longer is cut.
const LONGEST_TEXT: usize = 16 << 10;

/// Attributes that most spans have room for without growing, and bytes of their texts.
const ATTRIBUTES: usize = 14;
const TEXTS: usize = 224;

/// The attribute that marks its span as failed.
const ERROR: &str = "error.type";

/// The attributes, in the order in which they were set, and what else a span may be told while it is under
/// way.
#[derive(Debug)]
pub struct Fields {
    values: Vec<(&'static str, Stored)>,
    texts: String,
    name: Option<Range<u32>>,
    failed: bool,
}

#[derive(Debug, Clone)]
enum Stored {
    Text(Range<u32>),
    List(Range<u32>),
    Int(i64),
    Double(f64),
}

/// The value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A text, cut where it was too long.
    Text(&'a str),
    /// A list of this one text.
    List(&'a str),
    /// A whole number, at most `i64::MAX`.
    Int(i64),
    /// A number that may have a fraction.
    Double(f64),
}

impl Fields {
    pub(super) fn new() -> Self {
        Self {
            values: Vec::with_capacity(ATTRIBUTES),
            texts: String::with_capacity(TEXTS),
            name: None,
            failed: false,
        }
    }

    /// Gives the span another name than that of its kind.
    pub fn named(&mut self, name: impl Display) {
        self.name = Some(self.add(name));
    }

    /// Sets a text, if there is one.
    pub fn text<'t>(&mut self, name: &'static str, text: impl Into<Option<&'t str>>) {
        if let Some(text) = text.into() {
            let begun = self.texts.len();
            self.texts.push_str(&text[..text.floor_char_boundary(LONGEST_TEXT)]);
            let range = self.since(begun);
            self.values.push((name, Stored::Text(range)));
        }
    }

    /// Sets the text that `value` is shown as.
    pub fn shown(&mut self, name: &'static str, value: impl Display) {
        let range = self.add(value);
        self.values.push((name, Stored::Text(range)));
    }

    /// Sets a list of one text.
    pub fn list(&mut self, name: &'static str, text: &str) {
        let range = self.add(text);
        self.values.push((name, Stored::List(range)));
    }

    /// Sets a whole number, if there is one.
    pub fn int(&mut self, name: &'static str, value: impl Into<Option<u64>>) {
        if let Some(value) = value.into() {
            self.values.push((name, Stored::Int(i64::try_from(value).unwrap_or(i64::MAX))));
        }
    }

    /// Sets a number, if there is one.
    pub fn double(&mut self, name: &'static str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.values.push((name, Stored::Double(value)));
        }
    }

    /// Marks the span as failed, in that way.
    pub fn failed(&mut self, way: impl Display) {
        self.failed = true;
        self.shown(ERROR, way);
    }

    /// The name that the span was given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|range| self.get(range))
    }

    /// Whether the span was marked as failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Names and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.values.iter().map(|(name, stored)| {
            let value = match stored {
                Stored::Text(range) => Value::Text(self.get(range)),
                Stored::List(range) => Value::List(self.get(range)),
                Stored::Int(value) => Value::Int(*value),
                Stored::Double(value) => Value::Double(*value),
            };
            (*name, value)
        })
    }

    fn add(&mut self, value: impl Display) -> Range<u32> {
        let begun = self.texts.len();
        // An error says that there is no more room: then the text is cut.
        let _cut = write!(Bounded { texts: &mut self.texts, end: begun + LONGEST_TEXT }, "{value}");
        self.since(begun)
    }

    fn since(&self, begun: usize) -> Range<u32> {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        place(begun)..place(self.texts.len())
    }

    fn get(&self, range: &Range<u32>) -> &str {
        self.texts.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// Takes what is written until it ends there.
struct Bounded<'a> {
    texts: &'a mut String,
    end: usize,
}

impl fmt::Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.floor_char_boundary(self.end - self.texts.len());
        self.texts.push_str(&text[..room]);
        if room < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lie_behind_each_other_and_are_cut() {
        let mut fields = Fields::new();
        fields.named(format_args!("chat {}", "m"));
        fields.text("a", "text");
        fields.text("nothing", None);
        fields.int("b", u64::MAX);
        fields.int("nothing", None);
        fields.double("c", Some(0.5));
        fields.list("d", "stop");
        fields.shown("e", "é".repeat(LONGEST_TEXT));
        fields.text("f", &*format!("x{}", "é".repeat(LONGEST_TEXT)));
        assert!(!fields.has_failed());
        fields.failed(503);
        let long = "é".repeat(LONGEST_TEXT / 2);
        let cut = format!("x{}", "é".repeat(LONGEST_TEXT / 2 - 1));
        let expected = [
            ("a", Value::Text("text")),
            ("b", Value::Int(i64::MAX)),
            ("c", Value::Double(0.5)),
            ("d", Value::List("stop")),
            ("e", Value::Text(&long)),
            ("f", Value::Text(&cut)),
            ("error.type", Value::Text("503")),
        ];
        assert_eq!(fields.iter().collect::<Vec<_>>(), expected);
        assert_eq!((fields.name(), fields.has_failed()), (Some("chat m"), true));
    }
}
