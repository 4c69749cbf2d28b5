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

/// Marks of direction, joiners, tags and the like.
pub fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
