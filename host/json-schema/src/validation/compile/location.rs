//! Where in a schema something stands, and errors that say so.

use std::fmt;

use crate::brief::PROBLEM_BYTES;
use crate::text_sanitizer::printable;

/// A position in the schema's text, as a JSON pointer.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Key(parent, key) => {
                write!(f, "{parent}/{}", printable(&key.replace('~', "~0").replace('/', "~1"), 64))
            }
            At::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// An error about that position.
pub(super) fn wrong(at: &At<'_>, problem: impl fmt::Display) -> String {
    let position = at.to_string();
    let position = if position.is_empty() { "it" } else { &position };
    format!("is not a JSON Schema: {} {problem}", printable(position, PROBLEM_BYTES))
}
