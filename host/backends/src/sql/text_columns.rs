//! Texts that callers chose, in columns. PostgreSQL's `text` holds every character but U+0000, so that one
//! is written in another way; everything else can be read in the database as it is.

use std::borrow::Cow;

/// The text without U+0000: a backslash is doubled, U+0000 becomes `\0`. Different texts stay different.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '\0']) {
        text.replace('\\', "\\\\").replace('\0', "\\0").into()
    } else {
        text.into()
    }
}

/// The text that [`escape`] was given.
pub(super) fn unescape(text: String) -> String {
    if !text.contains('\\') {
        return text;
    }
    let mut original = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        original.push(match character {
            '\\' if characters.next() == Some('0') => '\0',
            other => other,
        });
    }
    original
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_texts_stand_as_they_are() {
        assert!(matches!(escape("run_1 é 🦀 '\""), Cow::Borrowed(_)));
        assert_eq!(escape("C:\\0\0"), "C:\\\\0\\0");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "(\\\\|\0|0|.){0,20}") {
            let escaped = escape(&text).into_owned();
            prop_assert!(!escaped.contains('\0'));
            prop_assert_eq!(unescape(escaped), text);
        }
    }
}
