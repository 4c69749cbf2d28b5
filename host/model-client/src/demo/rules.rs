//! The rules of the demo model: which tools a text asks for. Rules of thumb in English, deliberately few.

use std::iter;

/// A tool that a text asks for, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// The value of an arithmetic expression.
    Calculate(String),
    /// The time, in a zone if one is named.
    Time(Option<String>),
    /// Statistics of a text.
    Statistics(String),
}

/// Everything a text asks for.
pub(super) fn intents(text: &str) -> Vec<Intent> {
    if let Some(subject) = counted_text(text) {
        // The text to count may look like anything.
        return vec![Intent::Statistics(subject.to_owned())];
    }
    let time = asks_for_time(text).then(|| Intent::Time(zone(text)));
    expression(text).map(Intent::Calculate).into_iter().chain(time).collect()
}

/// `call greet {"name": "Ada"}` → the tool's name and the text of its arguments.
pub(super) fn written_call(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (tool, arguments) = rest.split_at(end);
    let is_name = tool.starts_with(|c: char| c.is_ascii_lowercase());
    (word.eq_ignore_ascii_case("call") && is_name).then(|| (tool, arguments.trim()))
}

/// "count the words in this sentence" → "this sentence".
fn counted_text(text: &str) -> Option<&str> {
    const ASKING: [&str; 5] =
        ["count the words", "count words", "how many words", "word count", "text stats"];
    const BETWEEN: [&str; 8] = ["are there", "are in", "in", "of", "for", "the text", "this text", "text"];
    let lower = text.to_ascii_lowercase();
    let end = ASKING.iter().find_map(|asking| Some(lower.find(asking)? + asking.len()))?;
    let mut subject = text.get(end..)?;
    loop {
        subject = subject.trim_matches(|c: char| c.is_whitespace() || ":;,\"'“”?".contains(c));
        let word = BETWEEN.iter().find(|word| starts_with_word(subject, word));
        let Some(rest) = word.and_then(|word| subject.get(word.len()..)) else { break };
        subject = rest;
    }
    Some(if subject.is_empty() { text } else { subject })
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let Some(start) = text.get(..word.len()) else { return false };
    let follows = text.get(word.len()..).and_then(|rest| rest.chars().next());
    start.eq_ignore_ascii_case(word) && follows.is_some_and(|c| !c.is_alphanumeric())
}

fn asks_for_time(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        ["time", "clock", "timezone", "date", "today"].iter().any(|asking| word.eq_ignore_ascii_case(asking))
    })
}

/// "in Europe/Paris" or "in Tokyo" → the zone's name.
fn zone(text: &str) -> Option<String> {
    const PLACES: [(&str, &str); 10] = [
        ("utc", "UTC"),
        ("gmt", "UTC"),
        ("berlin", "Europe/Berlin"),
        ("london", "Europe/London"),
        ("new york", "America/New_York"),
        ("paris", "Europe/Paris"),
        ("san francisco", "America/Los_Angeles"),
        ("sydney", "Australia/Sydney"),
        ("tokyo", "Asia/Tokyo"),
        ("vienna", "Europe/Vienna"),
    ];
    let tokens = text.split(|c: char| !(c.is_alphanumeric() || "/_-+".contains(c)));
    let named = tokens.clone().find(|token| {
        let mut parts = token.split('/');
        let is_part = |part: &str| part.chars().next().is_some_and(char::is_uppercase);
        token.contains('/') && parts.all(is_part)
    });
    named.map(str::to_owned).or_else(|| {
        let words = tokens.filter(|token| !token.is_empty()).map(str::to_ascii_lowercase);
        let spaced = format!(" {} ", words.collect::<Vec<_>>().join(" "));
        let place = PLACES.iter().find(|(place, _)| spaced.contains(&format!(" {place} ")));
        place.map(|(_, zone)| (*zone).to_owned())
    })
}

/// The longest stretch of the text that is arithmetic: "what is 2 times (3+4)?" → "2 * (3+4)".
fn expression(text: &str) -> Option<String> {
    let symbols = spell_with_symbols(text);
    symbols
        .split(|c: char| !(c.is_ascii_digit() || ".+-*/%^() ".contains(c)))
        .filter_map(arithmetic)
        .max_by_key(String::len)
}

/// "2 plus 3" → "2 + 3".
fn spell_with_symbols(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let symbol = match word.to_ascii_lowercase().as_str() {
            "plus" => "+",
            "minus" => "-",
            "times" | "x" | "multiplied" => "*",
            "divided" | "over" => "/",
            "by" if matches!(words.last(), Some(&("*" | "/"))) => continue,
            _ => word,
        };
        words.push(symbol);
    }
    words.join(" ").replace(['×', '·'], "*").replace('÷', "/").replace('−', "-")
}

/// The expression in a run of digits and operators; nothing when there is nothing to calculate.
fn arithmetic(run: &str) -> Option<String> {
    let mut run = run.trim_matches(' ').trim_end_matches(|c: char| !(c.is_ascii_digit() || c == ')'));
    run = run.trim_start_matches(['*', '/', '%', '^', '.', ')', ' ']);
    if run.matches('(').count() != run.matches(')').count() {
        run = run.trim_start_matches('(').trim_end_matches(')').trim_matches(' ');
    }
    let balanced = run.matches('(').count() == run.matches(')').count();
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let numbers = run.split(|c: char| !digits(c)).filter(|number| !number.is_empty()).collect::<Vec<_>>();
    let is_date = numbers.first().is_some_and(|year| year.len() == 4)
        && numbers.len() == 3
        && run.matches('-').count() == 2
        && !run.contains(' ');
    (balanced && !is_date && operators_join_numbers(run)).then(|| run.to_owned())
}

/// True when there is an operator between two operands, and never two operands side by side.
fn operators_join_numbers(run: &str) -> bool {
    let tokens = run.split_inclusive(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (mut joined, mut after_operand) = (false, false);
    for token in tokens {
        let number = token.trim_end_matches(|c: char| !(c.is_ascii_digit() || c == '.'));
        if !number.is_empty() {
            if after_operand {
                return false;
            }
            after_operand = true;
        }
        match token.chars().last() {
            Some('+' | '-' | '*' | '/' | '%' | '^') => {
                joined |= after_operand;
                after_operand = false;
            }
            Some('(') if after_operand => return false,
            _ => {}
        }
    }
    joined && after_operand
}

/// The demo's answers name things as a person would.
pub(super) fn enumerate(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => {
            let rest = rest.iter().flat_map(|name| iter::once(", ").chain(iter::once(*name)));
            format!("{} and {last}", rest.skip(1).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_found() {
        for (text, expected) in [
            ("What is 12 * (3+4)?", Some("12 * (3+4)")),
            ("2+2", Some("2+2")),
            ("2+2.", Some("2+2")),
            ("what's 3 times 4, please", Some("3 * 4")),
            ("1.5 plus 2 minus 3", Some("1.5 + 2 - 3")),
            ("100 divided by 7", Some("100 / 7")),
            ("6 × 7 or 1+1?", Some("6 * 7")),
            ("3 x 4", Some("3 * 4")),
            ("(what is 2+2)", Some("2+2")),
            ("-3 + 5", Some("-3 + 5")),
            ("2 * -3", Some("2 * -3")),
            ("I have 3 apples and 4 pears", None),
            ("3 4", None),
            ("2026-11-21", None),
            ("call 42", None),
            ("a - b", None),
            ("well...", None),
            ("((1+2)", Some("1+2")),
            ("", None),
        ] {
            assert_eq!(expression(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn intents_are_told_apart() {
        let time = |zone: &str| Intent::Time(Some(zone.into()));
        let calculate = |expression: &str| Intent::Calculate(expression.into());
        for (text, expected) in [
            ("What time is it?", vec![Intent::Time(None)]),
            ("time in Europe/Paris", vec![time("Europe/Paris")]),
            ("What's the time in Tokyo?", vec![time("Asia/Tokyo")]),
            ("the time in New York, and 2+2", vec![calculate("2+2"), time("America/New_York")]),
            ("current date in America/Argentina/Buenos_Aires", vec![time("America/Argentina/Buenos_Aires")]),
            ("3 times 4", vec![calculate("3 * 4")]),
            ("Tell me a joke", vec![]),
            ("sometimes and/or", vec![]),
        ] {
            assert_eq!(intents(text), expected, "{text}");
        }
    }

    #[test]
    fn the_text_to_count_is_what_follows() {
        for (text, expected) in [
            ("Count the words in: the time is 2+2", "the time is 2+2"),
            ("how many words are there in \"a b c\"?", "a b c"),
            ("Word count of this text: one two", "one two"),
            ("count words", "count words"),
            ("count words inside boxes", "inside boxes"),
            ("Count the words in Ä ö", "Ä ö"),
        ] {
            assert_eq!(intents(text), [Intent::Statistics(expected.into())], "{text}");
        }
    }

    #[test]
    fn calls_are_written_with_a_name_and_arguments() {
        for (text, expected) in [
            (r#"call greet {"name": "Ada"}"#, Some(("greet", r#"{"name": "Ada"}"#))),
            ("Call now_utc", Some(("now_utc", ""))),
            (" call  greet\n{}", Some(("greet", "{}"))),
            ("call greet{}", Some(("greet", "{}"))),
            ("call me a taxi", Some(("me", "a taxi"))),
            ("call 42", None),
            ("call", None),
            ("recall greet {}", None),
            ("", None),
        ] {
            assert_eq!(written_call(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_enumerated() {
        assert_eq!(enumerate(&[]), "");
        assert_eq!(enumerate(&["a"]), "a");
        assert_eq!(enumerate(&["a", "b", "c"]), "a, b and c");
    }
}
