//! What others wrote, as it may stand in a message.

/// Longest text that is shown whole. More would push what matters off the screen.
const SHOWN_CHARACTERS: usize = 60;

/// In quotes, on one line and not too much of it: `{:?}` escapes line breaks, so that a text cannot fake a
/// line.
pub(super) fn brief(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// The first ones, and how many more there are.
pub(super) fn listed(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_on_one_line_and_cut() {
        assert_eq!(brief("a\nb"), r#""a\nb""#);
        assert_eq!(brief(&"ä".repeat(60)), format!("\"{}\"", "ä".repeat(60)));
        assert_eq!(brief(&"ä".repeat(61)), format!("\"{}\"…", "ä".repeat(60)));
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!((listed(&names, 3), listed(&names, 1)), ("a, b, c".into(), "a and 2 more".into()));
    }
}
