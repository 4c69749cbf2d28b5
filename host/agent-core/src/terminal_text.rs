//! Texts of strangers, as a terminal may show them.

use std::fmt::Write as _;

/// At most so many characters of a text, what could steer a terminal or cannot be seen escaped.
pub fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    let mut chars = text.chars();
    for char in chars.by_ref().take(most) {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else if is_invisible(char) {
            shown.extend(char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    let left = chars.as_str().len();
    if left > 0 {
        let _ = write!(shown, "… and {left} bytes more");
    }
    shown
}

/// JSON as serializers write it, on one line, with what could steer a terminal or cannot be seen as escapes
/// of JSON: a copy of it is the same value.
pub fn shown_json(json: &str) -> String {
    if json.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return json.to_owned();
    }
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        if has_form_of_its_own(char) {
            shown.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// Whether a character is seen as itself. Rust's own tables know marks that change another character, and
/// what no font has.
fn has_form_of_its_own(char: char) -> bool {
    let is_printable = matches!(char, '"' | '\'' | '\\') || char.escape_debug().len() == 1;
    is_printable && !is_invisible(char)
}

/// Marks of direction, joiners, tags and the like, and letters without a form, such as the fillers of Hangul.
pub fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> String {
        shown_json(&serde_json::to_string(text).unwrap())
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
        assert_eq!(json("\u{3164}\u{1160}\u{2800}"), r#""\u3164\u1160\u2800""#, "letters without a form");
        assert_eq!(json("\u{e0041}\"\\"), r#""\udb40\udc41\"\\""#);
        assert_eq!(json("e\u{301}\u{e000}"), r#""e\u0301\ue000""#, "marks and characters of no font");
    }

    proptest! {
        #[test]
        fn whoever_parses_it_reads_the_same(text in r"\PC{0,20}|[\x00-\u{2100}]{0,20}|.{0,20}") {
            let back: String = serde_json::from_str(&json(&text)).unwrap();
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn json_steers_no_terminal_and_keeps_its_value() {
        // Serializers escape only what is below U+0020.
        let value = serde_json::json!({"a\u{9b}31m": "x\u{202e}y\u{e0041}\u{7f}\u{1b} é 🦀"});
        let json = shown_json(&value.to_string());
        assert_eq!(json, r#"{"a\u009b31m":"x\u202ey\udb40\udc41\u007f\u001b é 🦀"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }
}
