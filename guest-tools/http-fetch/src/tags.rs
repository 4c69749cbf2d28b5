//! Tags of HTML, as browsers forgive them: names in any case, values with quotes or without.

use crate::entities;

/// Where a tag begins, in any case.
pub(crate) fn find_tag(html: &str, tag: &str) -> Option<usize> {
    html.match_indices('<').map(|(at, _)| at).find(|at| {
        let found = html.get(*at..at + tag.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(tag))
            && html
                .get(at + tag.len()..)
                .is_some_and(|behind| !behind.starts_with(|one: char| one.is_ascii_alphanumeric()))
    })
}

/// A tag up to its `>`, which quotes may hold too, and what is behind it.
pub(crate) fn split_tag(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, one) in text.char_indices() {
        match (quote, one) {
            (None, '>') => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            }
            // A quote counts only where a value begins, or one in a careless tag would hide the rest of the
            // page.
            (None, '"' | '\'') if text.get(..at).is_some_and(|before| before.trim_end().ends_with('=')) => {
                quote = Some(one)
            }
            (Some(open), one) if open == one => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed: up to the first `>` then.
    text.split_once('>').unwrap_or((text, ""))
}

/// The value of an attribute of a tag.
pub(crate) fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag;
    loop {
        let (before, behind) = rest.split_once('=')?;
        let own =
            before.trim_end().rsplit(|one: char| one.is_whitespace() || matches!(one, '"' | '\'')).next();
        let behind = behind.trim_start();
        let (value, after) = match behind.chars().next() {
            Some(quote @ ('"' | '\'')) => behind.get(1..)?.split_once(quote)?,
            _ => behind.split_at(behind.find(char::is_whitespace).unwrap_or(behind.len())),
        };
        if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
            return Some(entities::resolve(value));
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::{attribute, find_tag, split_tag};

    #[test]
    fn tags_and_their_values_are_found() {
        assert_eq!(find_tag("<a><AB><b>", "<ab"), Some(3));
        assert_eq!(find_tag("<abc>", "<ab"), None);
        assert_eq!(split_tag("a b='>'>c"), ("a b='>'", "c"));
        for (tag, value) in [
            ("a href=x", Some("x")),
            ("a title='href=no' HREF = \"a&amp;b\" x", Some("a&b")),
            ("a data-href=x", None),
            ("a href", None),
            ("a href='x", None),
        ] {
            assert_eq!(attribute(tag, "href").as_deref(), value, "{tag}");
        }
    }
}
