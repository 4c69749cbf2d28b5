//! Texts that match a pattern, made by walking through it.

use fastrand::Rng;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Most times that a part without an upper bound is repeated beyond what it must be.
const MOST_MORE: u32 = 3;

/// Longest text that is made, in characters.
const MOST_CHARS: usize = 1000;

/// A text that matches, if the pattern can be read. The patterns of JSON Schema are of ECMAScript, so some
/// cannot.
pub(super) fn sample(pattern: &str, random: &mut Rng) -> Option<String> {
    // Without tables for Unicode classes, `\d` is what it is in ECMAScript.
    let parse = |pattern: &str| ParserBuilder::new().nest_limit(50).build().parse(pattern).ok();
    let ascii =
        || pattern.replace("\\d", "[0-9]").replace("\\w", "[0-9A-Za-z_]").replace("\\s", "[ \\t\\n\\r]");
    let parsed = parse(pattern).or_else(|| parse(&ascii()))?;
    let mut text = String::new();
    write(&parsed, random, &mut text)?;
    Some(text)
}

fn write(part: &Hir, random: &mut Rng, text: &mut String) -> Option<()> {
    if text.chars().count() > MOST_CHARS {
        return None;
    }
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(()),
        HirKind::Literal(literal) => {
            text.push_str(std::str::from_utf8(&literal.0).ok()?);
            Some(())
        }
        HirKind::Class(class) => {
            text.push(choose(class, random)?);
            Some(())
        }
        HirKind::Capture(capture) => write(&capture.sub, random, text),
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, random, text)),
        HirKind::Alternation(parts) => write(parts.get(random.usize(..parts.len().max(1)))?, random, text),
        HirKind::Repetition(repetition) => {
            let Repetition { min, max, sub, .. } = repetition;
            let most = max.unwrap_or(min.saturating_add(MOST_MORE)).min(min.saturating_add(MOST_MORE));
            let times = random.u32(*min..=most.max(*min));
            (0..times).try_for_each(|_| write(sub, random, text))
        }
    }
}

/// A character of a class; one that can be read, if there is one.
fn choose(class: &Class, random: &mut Rng) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            let ranges = class.ranges().iter().filter(|range| range.end().is_ascii());
            ranges.map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let readable: Vec<_> = ranges
        .iter()
        .filter_map(|(start, end)| {
            let (start, end) = ((*start).max('!'), (*end).min('~'));
            (start <= end).then_some((start, end))
        })
        .collect();
    let among = if readable.is_empty() { &ranges } else { &readable };
    let (start, end) = among.get(random.usize(..among.len().max(1)))?;
    Some(random.char(*start..=*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_matches() {
        for pattern in [
            "^[A-Z]{3}$",
            "^(EUR|USD)$",
            r"^\d{4}-\d{2}-\d{2}$",
            "a+b*c?",
            "^[^@]+@[a-z]+\\.(org|com)$",
            r"^\w+$",
            "",
        ] {
            let expected = regex::Regex::new(pattern).unwrap();
            for seed in 0..50 {
                let text = sample(pattern, &mut Rng::with_seed(seed)).expect(pattern);
                assert!(expected.is_match(&text), "{pattern}: {text:?}");
            }
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_read_makes_nothing() {
        assert_eq!(sample("(?=a)b", &mut Rng::with_seed(1)), None);
        assert_eq!(sample("(", &mut Rng::with_seed(1)), None);
    }
}
