//! What a setting may hold, and how that is said to an operator.

use std::fmt;

/// What a setting may hold. `Display` says it to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A text that is never shown.
    Secret,
    /// A text that is never shown and goes into a header of HTTP requests.
    Key,
    /// A path of a file or folder.
    Path,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Number {
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
        /// What it counts.
        unit: Unit,
    },
    /// A URL with one of these schemes. It may hold a password, so it is never shown.
    Url(&'static [&'static str]),
    /// Something with rules of its own, said in words.
    Special(&'static str),
    /// Something with rules of its own, said in words, and never shown.
    Hidden(&'static str),
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Things,
    Milliseconds,
    Bytes,
}

impl Kind {
    /// Whether such a value must not be shown.
    pub fn is_hidden(self) -> bool {
        match self {
            Self::Secret | Self::Key | Self::Url(_) | Self::Hidden(_) => true,
            Self::Text | Self::Path | Self::OneOf(_) | Self::Number { .. } | Self::Special(_) => false,
        }
    }

    /// Whether a value begins as such a URL does.
    pub(super) fn begins(self, value: &str) -> bool {
        let scheme = value.split_once("://").map(|(scheme, _)| scheme);
        matches!((self, scheme), (Self::Url(schemes), Some(scheme)) if schemes.contains(&scheme))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("any text"),
            Self::Secret => f.write_str("at least one character"),
            Self::Key => f.write_str("at least one character, and no control characters"),
            Self::Path => f.write_str("a path"),
            Self::OneOf(words) => f.write_str(&either(words, "")),
            Self::Number { least, most, unit } => write!(f, "a whole number{unit} from {least} to {most}"),
            Self::Url(schemes) => write!(f, "a URL that starts with {}", either(schemes, "://")),
            Self::Special(words) | Self::Hidden(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Things => "",
            Self::Milliseconds => " of milliseconds",
            Self::Bytes => " of bytes",
        })
    }
}

/// `a, b or c`, with something behind each word.
pub fn either(words: &[&str], behind: &str) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word}{behind}")).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_say_what_is_allowed() {
        let number = |least, unit| Kind::Number { least, most: 9, unit };
        for (kind, said) in [
            (Kind::OneOf(&["on"]), "on"),
            (Kind::OneOf(&["on", "off"]), "on or off"),
            (Kind::OneOf(&["a", "b", "both"]), "a, b or both"),
            (number(0, Unit::Things), "a whole number from 0 to 9"),
            (number(1, Unit::Milliseconds), "a whole number of milliseconds from 1 to 9"),
            (Kind::Url(&["redis", "memory"]), "a URL that starts with redis:// or memory://"),
        ] {
            assert_eq!(kind.to_string(), said);
        }
    }

    #[test]
    fn a_url_begins_with_one_of_its_schemes() {
        let url = Kind::Url(&["redis", "memory"]);
        for (value, begins) in [("redis://h:p#w@x", true), ("redis:x", false), ("http://redis://", false)] {
            assert_eq!(url.begins(value), begins, "{value}");
        }
        assert!(!Kind::Text.begins("redis://x"));
    }
}
