//! Finding, replacing and splitting, within bounds.

use std::collections::BTreeMap;

use agent_tool_sdk::Failure;
use engine::{Captures, Regex};
use schemars::JsonSchema;
use serde::Serialize;

/// The longest text that is searched, in bytes.
const LONGEST_TEXT: usize = 256 << 10;

/// The most matches that are made: each begins a search of its own.
const MOST_MATCHES: usize = 500;

/// The most text in an answer, in bytes: it is a model that has to read it.
const MOST_BYTES: usize = 64 << 10;

/// What was done. What was not asked for is not there.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Outcome {
    /// What matches, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<Match>>,
    /// The text with replacements.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// How many matches were replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
    /// The text between matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<String>>,
    /// Present and true when there may be more: after 500 matches or 64 KiB.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// A match.
#[derive(Debug, Serialize, JsonSchema)]
struct Match {
    text: String,
    /// Characters before it.
    start: usize,
    /// By name, or else by number; null if the group took no part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, Option<String>>,
}

/// Refuses a text that is too long.
pub(crate) fn check_length(text: &str) -> Result<(), Failure> {
    if text.len() > LONGEST_TEXT {
        let length = text.len();
        return Err(Failure::invalid_arguments(format!(
            "`text` has {length} bytes and may have {LONGEST_TEXT}: pass a part of it"
        )));
    }
    Ok(())
}

/// All matches.
pub(crate) fn find(regex: &Regex, text: &str) -> Outcome {
    let mut matches = Vec::new();
    let (mut bytes, mut characters, mut counted) = (0, 0, 0);
    let mut truncated = false;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        let groups = read_groups(regex, &captures);
        bytes += whole.len() + groups.values().flatten().map(String::len).sum::<usize>();
        if matches.len() == MOST_MATCHES || bytes > MOST_BYTES {
            truncated = true;
            break;
        }
        characters += text.get(counted..whole.start()).map_or(0, |between| between.chars().count());
        counted = whole.start();
        matches.push(Match { text: whole.as_str().to_owned(), start: characters, groups });
    }
    Outcome { matches: Some(matches), truncated, ..Outcome::default() }
}

fn read_groups(regex: &Regex, captures: &Captures<'_>) -> BTreeMap<String, Option<String>> {
    let groups = regex.capture_names().zip(captures.iter()).enumerate().skip(1);
    groups
        .map(|(number, (name, group))| {
            let name = name.map_or_else(|| number.to_string(), str::to_owned);
            (name, group.map(|group| group.as_str().to_owned()))
        })
        .collect()
}

/// The text with all matches replaced.
pub(crate) fn replace(regex: &Regex, text: &str, replacement: &str) -> Result<Outcome, Failure> {
    let replacement = &read_replacement(regex, replacement);
    check_groups(regex, replacement)?;
    let mut written = String::new();
    let (mut replaced, mut behind) = (0, 0);
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        written.push_str(text.get(behind..whole.start()).unwrap_or_default());
        captures.expand(replacement, &mut written);
        behind = whole.end();
        replaced += 1;
        if written.len() > LONGEST_TEXT {
            return Err(Failure::new(
                "too-large",
                format!(
                    "the replacements make a text of more than {LONGEST_TEXT} bytes: replace in a part of it"
                ),
            ));
        }
    }
    written.push_str(text.get(behind..).unwrap_or_default());
    Ok(Outcome { text: Some(written), replaced: Some(replaced), ..Outcome::default() })
}

/// Groups as the engine names them: other languages write `\1` for `$1`, and `\g<name>` or `$<name>` for
/// `${name}`.
fn read_replacement(regex: &Regex, replacement: &str) -> String {
    let mut read = String::with_capacity(replacement.len());
    let mut rest = replacement;
    while let Some(first) = rest.chars().next() {
        if let Some((name, behind)) = read_group(regex, rest) {
            read.push_str(&format!("${{{name}}}"));
            rest = behind;
            continue;
        }
        // Two dollar signs stand for one, and the second begins nothing.
        let (plain, behind) = rest.split_at(if rest.starts_with("$$") { 2 } else { first.len_utf8() });
        read.push_str(plain);
        // A price in front of a group: the engine would read it with the group's own sign as one.
        if plain == "$" && behind.starts_with('\\') && read_group(regex, behind).is_some() {
            read.push('$');
        }
        rest = behind;
    }
    read
}

/// The group that a text begins with in another language, and what is behind it. A name counts only where the
/// pattern has it: `$<b>` may be a price in HTML.
fn read_group<'a>(regex: &Regex, text: &'a str) -> Option<(&'a str, &'a str)> {
    if let Some(named) = text.strip_prefix("$<").or_else(|| text.strip_prefix("\\g<"))
        && let Some((name, behind)) = named.split_once(|one: char| !one.is_alphanumeric() && one != '_')
        && named.get(name.len()..).is_some_and(|end| end.starts_with('>'))
        && has_group(regex, name)
    {
        return Some((name, behind));
    }
    let behind = text.strip_prefix('\\')?;
    behind.starts_with(|one: char| one.is_ascii_digit()).then(|| behind.split_at(1))
}

fn has_group(regex: &Regex, name: &str) -> bool {
    match name.parse::<usize>() {
        Ok(number) => number < regex.captures_len(),
        Err(_) => regex.capture_names().flatten().any(|own| own == name),
    }
}

/// A group that is not there would be replaced by nothing, which nobody wants who names one.
fn check_groups(regex: &Regex, replacement: &str) -> Result<(), Failure> {
    let mut rest = replacement;
    while let Some((_, behind)) = rest.split_once('$') {
        if let Some(escaped) = behind.strip_prefix('$') {
            rest = escaped;
            continue;
        }
        rest = behind;
        let named = behind.strip_prefix('{').and_then(|behind| behind.split_once('}')).map(|(name, _)| name);
        let is_letter = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let name = named.unwrap_or_else(|| behind.split(|one| !is_letter(one)).next().unwrap_or_default());
        if !name.is_empty() && !has_group(regex, name) {
            return Err(Failure::invalid_arguments(format!(
                "`replacement` names the group ${name}, which `pattern` has not: write ${{1}} before a letter or digit, \
                 and $$ for a dollar sign"
            )));
        }
    }
    Ok(())
}

/// What is between the matches.
pub(crate) fn split(regex: &Regex, text: &str) -> Outcome {
    let mut parts = Vec::new();
    let mut bytes = 0;
    let mut truncated = false;
    for part in regex.split(text) {
        bytes += part.len();
        if parts.len() == MOST_MATCHES || bytes > MOST_BYTES {
            truncated = true;
            break;
        }
        parts.push(part.to_owned());
    }
    Outcome { parts: Some(parts), truncated, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::Component as _;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::Tools;

    fn call(arguments: &Value) -> Result<String, String> {
        let called = Tools::call("regex".to_owned(), arguments.to_string());
        called.map(|output| output.value).map_err(|failure| failure.message)
    }

    #[test]
    fn matches_are_found_with_their_groups() {
        for (pattern, text, answer) in [
            (r"\d+", "a1 é22", r#"{"matches":[{"text":"1","start":1},{"text":"22","start":4}]}"#),
            (
                r"(?<key>\w+)=(\d+)?",
                "x=1 y=",
                r#"{"matches":[{"text":"x=1","start":0,"groups":{"2":"1","key":"x"}},{"text":"y=","start":4,"groups":{"2":null,"key":"y"}}]}"#,
            ),
            ("(?i)É", "éÉ", r#"{"matches":[{"text":"é","start":0},{"text":"É","start":1}]}"#),
            ("z", "a", r#"{"matches":[]}"#),
            ("", "é", r#"{"matches":[{"text":"","start":0},{"text":"","start":1}]}"#),
        ] {
            assert_eq!(
                call(&json!({ "pattern": pattern, "text": text })).as_deref(),
                Ok(answer),
                "{pattern}"
            );
        }
    }

    #[test]
    fn matches_are_replaced_and_split_at() {
        for (arguments, answer) in [
            (
                json!({ "pattern": r"(\w)(\w)", "text": "ab-cd", "replacement": "$2${1}0$$" }),
                r#"{"text":"ba0$-dc0$","replaced":2}"#,
            ),
            (
                json!({ "pattern": r"(\w)-(\w)", "text": "b-c", "replacement": r"\20\1\n" }),
                r#"{"text":"c0b\\n","replaced":1}"#,
            ),
            (
                json!({ "pattern": r"(?<day>\d+)\.", "text": "3.", "replacement": r"\g<day>-$<day>$$<day>$<b>" }),
                r#"{"text":"3-3$<day>$<b>","replaced":1}"#,
            ),
            (
                json!({ "pattern": r"(\d+)", "text": "3", "replacement": r"$\1 $$\1" }),
                r#"{"text":"$3 $3","replaced":1}"#,
            ),
            (json!({ "pattern": "x", "text": "abc", "replacement": "" }), r#"{"text":"abc","replaced":0}"#),
            (
                json!({ "pattern": r"\s*,\s*", "text": "a , b,c", "split": true }),
                r#"{"parts":["a","b","c"]}"#,
            ),
        ] {
            assert_eq!(call(&arguments).as_deref(), Ok(answer), "{arguments}");
        }
        for (arguments, reason) in [
            (
                json!({ "pattern": "(a)", "text": "a", "replacement": "$1b" }),
                "`replacement` names the group $1b, which",
            ),
            (
                json!({ "pattern": "a", "text": "a", "replacement": "", "split": true }),
                "give `replacement` or `split`",
            ),
            (
                json!({ "pattern": "", "text": "a".repeat(1000), "replacement": "b".repeat(1000) }),
                "the replacements make",
            ),
            (json!({ "pattern": "a", "text": "a".repeat(300_000) }), "`text` has 300000 bytes"),
        ] {
            assert!(call(&arguments).unwrap_err().starts_with(reason), "{reason}");
        }
    }

    #[test]
    fn answers_are_bounded() {
        let answer = |arguments: Value| serde_json::from_str::<Value>(&call(&arguments).unwrap()).unwrap();
        let many = answer(json!({ "pattern": "a", "text": "a".repeat(501) }));
        assert_eq!((many["matches"].as_array().unwrap().len(), &many["truncated"]), (500, &json!(true)));
        let long = answer(json!({ "pattern": "(?s).*", "text": "a".repeat(70_000) }));
        assert_eq!((long["matches"].as_array().unwrap().len(), &long["truncated"]), (0, &json!(true)));
        let parts = answer(json!({ "pattern": "", "text": "a".repeat(600), "split": true }));
        assert_eq!((parts["parts"].as_array().unwrap().len(), &parts["truncated"]), (500, &json!(true)));
    }

    #[test]
    fn what_makes_others_backtrack_for_ever_ends() {
        let arguments = json!({ "pattern": "^(a+)+$", "text": format!("{}b", "a".repeat(20_000)) });
        assert_eq!(call(&arguments).as_deref(), Ok(r#"{"matches":[]}"#));
    }

    proptest! {
        #[test]
        fn any_pattern_ends(pattern in "(a|b|\\(|\\)|\\*|\\+|\\?|\\[|\\]|\\||\\{2\\}|é|\\\\w|\\$|\\^){0,12}", replacement in "(\\$|1|\\{|\\}|a){0,6}") {
            drop(call(&json!({ "pattern": pattern, "text": "aabé(ab)$", "replacement": replacement })));
        }
    }
}
