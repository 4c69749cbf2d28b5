//! Showing values in problem texts.

use std::fmt;

use serde_json::Value;

use crate::text_sanitizer::printable;

/// Longest problem text, in bytes: it quotes what the model or the tool wrote.
pub(crate) const PROBLEM_BYTES: usize = 300;

/// Shows the beginning of a value: writing all of it down may take megabytes. Nothing is read of the value
/// before it is shown, because most of what does not hold is never told.
pub(crate) fn brief(value: &Value) -> impl fmt::Display {
    Brief(value)
}

struct Brief<'a>(&'a Value);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut start = Bounded(Vec::new());
        let whole = serde_json::to_writer(&mut start, self.0).is_ok();
        let mut text =
            printable(String::from_utf8_lossy(&start.0).trim_end_matches('\u{fffd}'), PROBLEM_BYTES / 3);
        if !whole && !text.ends_with('…') {
            text.push('…');
        }
        f.write_str(&text)
    }
}

/// Refuses what does not fit.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = PROBLEM_BYTES.saturating_sub(self.0.len());
        if room == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
