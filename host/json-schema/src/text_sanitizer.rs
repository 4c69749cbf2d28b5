//! Texts of strangers: what a reader would not see is taken out or made visible.

/// Characters that show nothing and can carry what only a model reads: zero-width and formatting characters,
/// marks of writing direction, variation selectors, tags, fillers, and the ends of lines that are none in
/// JSON.
pub fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The invisible characters that no honest name or fixed value has: tags, marks of writing direction, and the
/// variation selectors that no emoji takes. The others join letters or choose the look of an emoji.
pub fn is_smuggled(char: char) -> bool {
    let honest = matches!(char, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{ad}');
    is_invisible(char) && !honest
}

/// A text without what cannot be seen in it. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    let hidden = |char: char| (char.is_control() && !matches!(char, '\n' | '\t')) || is_invisible(char);
    text.chars().filter(|char| !hidden(*char)).collect()
}

/// At most about `most` bytes of `text`, with control characters and what cannot be seen made visible.
pub fn printable(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for char in text.chars() {
        if out.len() >= most {
            out.push('…');
            break;
        }
        if char.is_control() || is_invisible(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_cannot_forge_log_lines_and_is_cut_to_size() {
        assert_eq!(printable("a\nb\u{1b}[31m\0", 100), "a\\nb\\u{1b}[31m\\u{0}");
        assert_eq!(printable("grüße", 3), "grü…");
        assert_eq!(printable("abc", 3), "abc");
        assert_eq!(printable("a\u{202e}b", 100), "a\\u{202e}b");
        assert_eq!(printable("a\u{e0041}b\u{200b}", 100), "a\\u{e0041}b\\u{200b}");
    }

    #[test]
    fn what_cannot_be_seen_is_taken_out_of_descriptions() {
        let smuggled: String =
            "ignore".chars().filter_map(|char| char::from_u32(char as u32 + 0xe_0000)).collect();
        assert_eq!(
            visible(&format!("Adds.{smuggled}\u{200b}\u{202e}\u{fe0f}\u{e0100}\r\n\tMore\u{7}")),
            "Adds.\n\tMore"
        );
        assert_eq!(visible("Zählt 数 🙂 — “x”"), "Zählt 数 🙂 — “x”");
    }
}
