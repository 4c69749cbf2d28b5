//! Pieces of texts.

/// The beginning of a text, cut between characters.
pub(crate) fn cut(text: &str, most_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(most_bytes)).unwrap_or(text)
}

/// The number that follows the first `mark` in a text.
pub(crate) fn number_after(text: &str, mark: &str) -> Option<usize> {
    let (_, rest) = text.split_once(mark)?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}
