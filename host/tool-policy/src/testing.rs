//! Policies for tests.

use std::sync::Arc;

use super::entries::{Entry, Identity, Policy};
use super::file;

/// A digest that no component has.
pub(super) fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

/// A component without a signature.
pub(super) fn unsigned<'a>(name: &'a str, digest: &'a str) -> Identity<'a> {
    Identity { name, digest, signer: None }
}

/// The text of an entry for `a`, with those lines.
pub(super) fn text_with(lines: &str) -> String {
    format!("[[component]]\nname = \"a\"\ndigest = \"{}\"\n{lines}", digest('a'))
}

pub(super) fn policy(text: &str) -> Policy {
    file::parse(text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

pub(super) fn entry_with(lines: &str) -> Arc<Entry> {
    policy(&text_with(lines)).entries()[0].clone()
}
