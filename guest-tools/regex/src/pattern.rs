//! From a pattern to what can be searched with, or to words that say what is wrong with it.

use agent_tool_sdk::Failure;
use engine::{Error, Regex, RegexBuilder};

/// The longest pattern, in bytes.
const LONGEST: usize = 2 << 10;

/// Memory of a compiled pattern. Searching takes at most so many steps per character as it has states.
const COMPILED_BYTES: usize = 1 << 20;

/// How deep groups may be nested.
const DEPTH: u32 = 50;

/// Compiles a pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Failure> {
    if pattern.len() > LONGEST {
        return Err(Failure::invalid_arguments(format!(
            "`pattern` has {} bytes and may have {LONGEST}",
            pattern.len()
        )));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).nest_limit(DEPTH).build();
    compiled.map_err(|error| Failure::invalid_arguments(format!("`pattern` {}", describe(pattern, &error))))
}

fn describe(pattern: &str, error: &Error) -> String {
    match error {
        Error::CompiledTooBig(_) => "repeats too much: use smaller numbers in {…}".to_owned(),
        other => {
            let message = other.to_string();
            // The engine draws the pattern with a line of ^ under what is wrong; the last line has the words.
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let marks = message
                .lines()
                .find(|line| !line.trim().is_empty() && line.trim().trim_matches('^').is_empty());
            let indent = marks.and_then(|marks| marks.find('^'));
            match indent.and_then(|indent| pattern.get(indent.checked_sub(4)?..)) {
                Some(rest) if !pattern.contains('\n') && !rest.is_empty() => {
                    let shown: String = rest.chars().take(20).collect();
                    format!("cannot be read at `{shown}`: {reason}")
                }
                _ => format!("cannot be read: {reason}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn what_is_wrong_with_a_pattern_is_said() {
        for (pattern, reason) in [
            ("a(b", "`pattern` cannot be read at `(b`: unclosed group"),
            (
                r"x(?=y)",
                "`pattern` cannot be read at `(?=y)`: look-around, including look-ahead and look-behind, is not supported",
            ),
            (r"(a)\1", r"`pattern` cannot be read at `\1`: backreferences are not supported"),
            (r"\p{Nope}", r"`pattern` cannot be read at `\p{Nope}`: Unicode property not found"),
            (r"(\w{1000}){1000}", "`pattern` repeats too much: use smaller numbers in {…}"),
            (&"(".repeat(3000), "`pattern` has 3000 bytes and may have 2048"),
        ] {
            assert_eq!(compile(pattern).unwrap_err().message, reason);
        }
        for pattern in [r"\p{Lu}\w+", "(?i)straße", r"(?x) a # comment", r"\bé\b"] {
            assert!(compile(pattern).is_ok(), "{pattern}");
        }
    }
}
