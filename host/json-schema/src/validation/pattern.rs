//! Regular expressions of strangers: small programs only, and a match pays for its length times their size.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::fuel::{Exhausted, Fuel};

/// Longest pattern, in bytes.
const SOURCE_BYTES: usize = 2 << 10;

/// Most different patterns of one component, and most bytes of their programs together.
const PATTERNS: usize = 100;
const PROGRAMS_BYTES: usize = 1 << 20;

/// Sizes a program may have, smallest first: the crate does not tell how large one became, only whether it
/// fits.
const PROGRAM_BYTES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Bytes of a program that one step goes through for each byte of the text, at the matcher's slowest: a state
/// takes no fewer.
const BYTES_PER_STEP: usize = 32;

/// What the matcher may cache of one pattern. Beyond it it goes on without, at the price that is charged.
const CACHE_BYTES: usize = 128 << 10;

/// A pattern that texts can be held against.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    steps_per_byte: u64,
}

/// What the patterns of one component used up.
#[derive(Debug, Default)]
pub(crate) struct PatternBudget {
    /// Patterns by their sources: those of a typed component stand in it once for each integer of 64 bits.
    known: HashMap<String, Arc<Pattern>>,
    bytes: usize,
}

impl Pattern {
    /// Reads a pattern of ECMA 262's syntax, or says what is wrong with it. A pattern that was read before is
    /// shared.
    pub(crate) fn compile(
        source: &str,
        budget: &mut PatternBudget,
        fuel: &mut Fuel,
    ) -> Result<Arc<Self>, String> {
        if source.len() > SOURCE_BYTES {
            return Err(format!("is a pattern of more than {SOURCE_BYTES} bytes"));
        }
        if let Some(known) = budget.known.get(source) {
            return Ok(known.clone());
        }
        if budget.known.len() >= PATTERNS {
            return Err(format!("is one pattern too many: a component may have {PATTERNS} different ones"));
        }
        let translated = jsonschema_regex::to_rust_regex(source)
            .map_err(|()| "is not a regex: try it in a browser, as new RegExp(…)".to_owned())?;
        for bytes in PROGRAM_BYTES {
            fuel.spend(bytes as u64).map_err(|Exhausted| "takes too long to prepare".to_owned())?;
            let built = RegexBuilder::new(&translated).size_limit(bytes).dfa_size_limit(CACHE_BYTES).build();
            let regex = match built {
                Ok(regex) => regex,
                Err(regex::Error::CompiledTooBig(_)) => continue,
                Err(_) => {
                    return Err("is not a regex that can be matched in linear time: \
                        look-around and references back are not supported; check that in the tool"
                        .to_owned());
                }
            };
            budget.bytes += bytes;
            if budget.bytes > PROGRAMS_BYTES {
                return Err(
                    "is a pattern too many: together the component's patterns are too large".to_owned()
                );
            }
            let pattern = Arc::new(Self { regex, steps_per_byte: (bytes / BYTES_PER_STEP) as u64 });
            budget.known.insert(source.to_owned(), pattern.clone());
            return Ok(pattern);
        }
        Err("is a pattern that is too large when its repetitions are written out: ask for less of them, or for maxLength beside it".to_owned())
    }

    /// What the pattern adds to the weight of a schema.
    pub(crate) fn weight(&self) -> u64 {
        self.steps_per_byte / 128
    }

    /// The pattern as the matcher has it.
    pub(crate) fn source(&self) -> &str {
        self.regex.as_str()
    }

    /// Whether the pattern is found in a text.
    pub(crate) fn is_match(&self, text: &str, fuel: &mut Fuel) -> Result<bool, Exhausted> {
        fuel.spend(self.steps_per_byte.saturating_mul(text.len() as u64 + 1))?;
        // Some patterns make the matcher panic (rust-lang/regex#1344). It has no state that could be torn.
        let is_match = |regex: &Regex| {
            panic::catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).map_err(|_panic| Exhausted)
        };
        // A regex keeps what its matches needed for the next ones, and a clone starts with nothing. A match
        // of many steps may need hundreds of kilobytes, which must not stay.
        if fuel.is_offloaded() { is_match(&self.regex.clone()) } else { is_match(&self.regex) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn compile(source: &str) -> Result<Arc<Pattern>, String> {
        let mut fuel = Fuel::until(Instant::now() + Duration::from_secs(60));
        Pattern::compile(source, &mut PatternBudget::default(), &mut fuel)
    }

    #[test]
    fn a_pattern_pays_for_what_it_is_when_written_out() {
        let (small, large) = (compile("^[a-z]+$").unwrap(), compile("a[ab]{300}[x-z]").unwrap());
        assert!(small.steps_per_byte < large.steps_per_byte, "{small:?} {large:?}");
        assert_eq!(large.is_match(&"a".repeat(16 << 10), &mut Fuel::inline()), Err(Exhausted));
        assert_eq!(small.is_match("abc", &mut Fuel::inline()), Ok(true));
    }

    #[test]
    fn what_is_too_large_or_no_pattern_is_refused_in_words() {
        let of = |source: &str| compile(source).unwrap_err();
        assert_eq!(of("("), "is not a regex: try it in a browser, as new RegExp(…)");
        assert!(of("(?=a)").contains("look-around"));
        assert!(of(&"a".repeat(3_000)).contains("more than 2048 bytes"));
        assert!(of("((a{100}){100}){100}").contains("too large when"));
    }
}
