//! Where something stands in the text of a schema, for errors.

use std::fmt;

use crate::schema::brief::PROBLEM_BYTES;
use crate::text::printable;

/// A place in the schema's text.
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

/// The error about what stands there.
pub(super) fn wrong(at: &At<'_>, problem: impl fmt::Display) -> String {
    let place = at.to_string();
    let place = if place.is_empty() { "it" } else { &place };
    format!("is not a JSON Schema: {} {problem}", printable(place, PROBLEM_BYTES))
}
