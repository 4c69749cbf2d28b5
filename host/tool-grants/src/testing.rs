//! Policies for the tests of this folder.

use std::sync::Arc;

use tool_policy::{Entry, file};

/// A digest that no component has.
pub(super) fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

/// The text of an entry for `a`, with those lines.
pub(super) fn text_with(lines: &str) -> String {
    format!("[[component]]\nname = \"a\"\ndigest = \"{}\"\n{lines}", digest('a'))
}

pub(super) fn entry_with(lines: &str) -> Arc<Entry> {
    file::parse(&text_with(lines)).unwrap().entries()[0].clone()
}
