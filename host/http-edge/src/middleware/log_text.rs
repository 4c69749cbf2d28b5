//! Text from outside, made fit for a log line. Nothing here decides what is logged.

use std::fmt::{self, Display, Write};

/// Displays something without the characters that end a line, move a cursor or turn the reading direction,
/// and without more than `limit` bytes of it: nobody can forge a line or flood the log with one.
#[derive(Debug)]
pub(crate) struct LogText<T> {
    pub(crate) text: T,
    pub(crate) limit: usize,
}

impl<T: Display> Display for LogText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape { out: f, left: self.limit, cut: false }, "{}", self.text)
    }
}

struct Escape<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    left: usize,
    cut: bool,
}

impl Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let plain = |byte: &u8| matches!(byte, b' '..=b'~');
        if text.len() <= self.left && text.as_bytes().iter().all(plain) {
            self.left -= text.len();
            return self.out.write_str(text);
        }
        text.chars().try_for_each(|character| self.write_char(character))
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        if self.cut {
            return Ok(());
        }
        let Some(left) = self.left.checked_sub(character.len_utf8()) else {
            self.cut = true;
            return self.out.write_char('…');
        };
        self.left = left;
        match character {
            // The log's own format escapes these if it has to.
            '"' | '\'' | '\\' => self.out.write_char(character),
            // Escapes whatever has no visible form of its own.
            _ => write!(self.out, "{}", character.escape_debug()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, limit: usize) -> String {
        LogText { text, limit }.to_string()
    }

    #[test]
    fn what_can_be_read_stays_as_it_is() {
        for text in ["/agent/invoke", "it's \"quoted\" \\ and 100 %", "Grüße, 世界"] {
            assert_eq!(line(text, 100), text);
        }
    }

    #[test]
    fn what_could_break_or_forge_a_line_is_escaped() {
        assert_eq!(line("a\nERROR b\r\0\u{1b}[31m", 100), r"a\nERROR b\r\0\u{1b}[31m");
        assert_eq!(line("a\u{85}b\u{2028}c\u{202e}d\u{7f}", 100), r"a\u{85}b\u{2028}c\u{202e}d\u{7f}");
    }

    #[test]
    fn what_is_too_long_is_cut_once() {
        assert_eq!(line("abcdef", 4), "abcd…");
        assert_eq!(line("abcé", 4), "abc…");
        assert_eq!(LogText { text: format_args!("{}{}{}", "ab", "cd", "ef"), limit: 3 }.to_string(), "abc…");
    }
}
