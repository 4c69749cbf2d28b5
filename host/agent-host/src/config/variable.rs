//! What is known of a variable: enough to read it, to refuse it, and to document it.

use std::fmt;

/// One environment variable. The whole table is in [`super::variables`].
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in sentences.
    pub about: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What holds when it is not set.
    pub fallback: Fallback,
    /// Who cannot do without it.
    pub need: Need,
}

/// What a variable may hold. `Display` says it to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
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
    /// The same, and it is never shown.
    Hidden(&'static str),
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Things,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
}

/// What holds when a variable is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing: the feature is off.
    Nothing,
    /// This value, read as if it had been set.
    Value(&'static str),
    /// Something that follows from other variables, said in words.
    Derived(&'static str),
}

/// Who cannot do without a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nobody.
    Never,
    /// Variant B, alone or beside A.
    VariantB,
    /// Everybody.
    Always,
}

impl Variable {
    /// A variable that nobody needs. Its name and its text are filled in by the table.
    const fn of(kind: Kind) -> Self {
        Self { name: "", about: "", kind, fallback: Fallback::Nothing, need: Need::Never }
    }

    pub(super) const fn or(self, value: &'static str) -> Self {
        Self { fallback: Fallback::Value(value), ..self }
    }

    pub(super) const fn or_derived(self, words: &'static str) -> Self {
        Self { fallback: Fallback::Derived(words), ..self }
    }

    pub(super) const fn needed(self, need: Need) -> Self {
        Self { need, ..self }
    }

    /// Whether its value must not be shown.
    pub fn is_hidden(&self) -> bool {
        match self.kind {
            Kind::Secret | Kind::Key | Kind::Url(_) | Kind::Hidden(_) => true,
            Kind::Text | Kind::Path | Kind::OneOf(_) | Kind::Number { .. } | Kind::Special(_) => false,
        }
    }
}

pub(super) const fn text() -> Variable {
    Variable::of(Kind::Text)
}

pub(super) const fn secret() -> Variable {
    Variable::of(Kind::Secret)
}

pub(super) const fn key() -> Variable {
    Variable::of(Kind::Key)
}

pub(super) const fn path() -> Variable {
    Variable::of(Kind::Path)
}

pub(super) const fn one_of(words: &'static [&'static str]) -> Variable {
    Variable::of(Kind::OneOf(words))
}

pub(super) const fn number(least: u64, most: u64) -> Variable {
    Variable::of(Kind::Number { least, most, unit: Unit::Things })
}

pub(super) const fn milliseconds(least: u64, most: u64) -> Variable {
    Variable::of(Kind::Number { least, most, unit: Unit::Milliseconds })
}

pub(super) const fn bytes(least: u64, most: u64) -> Variable {
    Variable::of(Kind::Number { least, most, unit: Unit::Bytes })
}

pub(super) const fn url(schemes: &'static [&'static str]) -> Variable {
    Variable::of(Kind::Url(schemes))
}

pub(super) const fn special(words: &'static str) -> Variable {
    Variable::of(Kind::Special(words))
}

pub(super) const fn hidden(words: &'static str) -> Variable {
    Variable::of(Kind::Hidden(words))
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
pub(super) fn either(words: &[&str], behind: &str) -> String {
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
        for (kind, said) in [
            (one_of(&["on"]).kind, "on"),
            (one_of(&["on", "off"]).kind, "on or off"),
            (one_of(&["a", "b", "both"]).kind, "a, b or both"),
            (number(0, 9).kind, "a whole number from 0 to 9"),
            (milliseconds(1, 9).kind, "a whole number of milliseconds from 1 to 9"),
            (url(&["redis", "memory"]).kind, "a URL that starts with redis:// or memory://"),
        ] {
            assert_eq!(kind.to_string(), said);
        }
    }
}
