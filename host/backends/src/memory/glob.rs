//! Patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before what is meant literally.
//!
//! No crate has these rules to the letter: what an unclosed class is, that a range may be written backwards,
//! that nothing is special about `/`. They are checked against a real Redis.

/// Whether the whole `text` matches. It takes at most the product of both lengths: a star that was passed
/// never has to be looked at again once a later one matched.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern_at, mut text_at) = (0, 0);
    // After the last star, and the first byte that it has not swallowed.
    let mut retry: Option<(usize, usize)> = None;
    while text_at < text.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += 1;
            retry = Some((pattern_at, text_at));
        } else if let Some(next) = match_one(pattern, pattern_at, text[text_at]) {
            (pattern_at, text_at) = (next, text_at + 1);
        } else if let Some((after_star, swallowed)) = retry {
            (pattern_at, text_at) = (after_star, swallowed + 1);
            retry = Some((pattern_at, text_at));
        } else {
            return false;
        }
    }
    pattern[pattern_at..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte against what stands at `at`; gives the place after it.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (*literal == byte).then_some(at + 1),
    }
}

/// Matches one byte against the class that begins at `at`; one that is not closed ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut found = false;
    loop {
        match pattern[at.min(pattern.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [one, b'-', other, ..] => {
                found |= (one.min(other)..=one.max(other)).contains(&byte);
                at += 3;
            }
            [one, ..] => {
                found |= one == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_they_do_in_redis() {
        let cases: &[(&str, &str, bool)] = &[
            ("agent:*", "agent:", true),
            ("agent:*", "agen", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[b-a]llo", "hallo", true),
            ("h[a", "ha", true),
            (r"h\*", "h*", true),
            (r"h\*", "hx", false),
            (r"h\", r"h\", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_no_attack() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
