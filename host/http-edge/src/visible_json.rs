//! JSON in which every character can be seen: what shows nothing, moves a cursor or turns the reading
//! direction is written as an escape. It means the same to whoever parses it, and cannot deceive whoever
//! reads it in a terminal.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value as compact JSON.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Visible))?;
    Ok(bytes)
}

/// serde_json escapes what JSON cannot hold; this escapes the rest of what cannot be seen.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if is_visible(character) {
                writer.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// Rust's own tables know which characters have a visible form of their own.
fn is_visible(character: char) -> bool {
    // Of the characters that JSON escapes none arrives here.
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> String {
        String::from_utf8(to_vec(text).unwrap()).unwrap()
    }

    #[test]
    fn what_can_be_read_stays_as_it_is() {
        for text in ["it's plain", "Grüße, 世界 🦀", "a/b <script>"] {
            assert_eq!(json(text), format!("\"{text}\""));
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(json("a\u{1b}[2Jb\u{9b}c\u{7f}"), r#""a\u001b[2Jb\u009bc\u007f""#);
        assert_eq!(json("\u{202e}x\u{200b}\u{feff}\u{2028}"), r#""\u202ex\u200b\ufeff\u2028""#);
        assert_eq!(json("\u{e0041}\"\\"), r#""\udb40\udc41\"\\""#);
    }

    proptest! {
        #[test]
        fn whoever_parses_it_reads_the_same(text in r"\PC{0,20}|[\x00-\u{2100}]{0,20}|.{0,20}") {
            let back: String = serde_json::from_str(&json(&text)).unwrap();
            prop_assert_eq!(back, text);
        }
    }
}
