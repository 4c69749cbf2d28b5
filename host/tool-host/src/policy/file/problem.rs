//! What is wrong with a policy file: all of it, each with its place and what to do, without a secret.

use std::fmt;

/// Most problems that are listed. The others are counted.
pub(super) const MOST_LISTED: usize = 100;

/// Everything that is wrong, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems {
    pub(super) listed: Vec<Problem>,
    pub(super) others: usize,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    /// What was found, as it may be shown.
    pub(crate) found: String,
    /// The valid word that is nearest to what was found.
    pub(crate) nearest: Option<String>,
    /// What to do: `allowed: …`, `add: …`.
    pub(crate) remedy: String,
}

impl Problems {
    /// Those that are listed.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &[Problem] {
        &self.listed
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}; ", self.line, self.column, self.found)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "did you mean {nearest:?}? ")?;
        }
        f.write_str(&self.remedy)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.listed.len() + self.others;
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} problem{plural} in the policy:")?;
        self.listed.iter().try_for_each(|problem| write!(f, "\n  {problem}"))?;
        if self.others > 0 {
            write!(f, "\n  … and {} more", self.others)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The word of `words` that somebody who wrote `found` probably meant.
pub(super) fn nearest(found: &str, words: &[&str]) -> Option<String> {
    /// Longer than any word of the file. The comparison takes the product of both lengths.
    const MOST_BYTES: usize = 64;
    /// Two words of this likeness or more look like one another.
    const ALIKE: f64 = 0.84;
    if found.len() > MOST_BYTES {
        return None;
    }
    let found = found.to_lowercase().replace('_', "-");
    let likeness = |word: &&str| {
        let word = word.to_lowercase();
        // Two letters that changed places make a short word another one.
        let is_slip = found.len() > 2 && strsim::osa_distance(&found, &word) == 1;
        if is_slip { 1.0 } else { strsim::jaro_winkler(&found, &word) }
    };
    let alike = words.iter().map(|word| (likeness(word), word)).filter(|(likeness, _)| *likeness >= ALIKE);
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, word)| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_that_was_meant_or_none() {
        let words =
            ["name", "digest", "signer", "users", "tiers", "roles", "timeout-ms", "key-value", "http"];
        let rows = [
            ("diggest", Some("digest")),
            ("digests", Some("digest")),
            ("Name", Some("name")),
            ("tier", Some("tiers")),
            ("user", Some("users")),
            ("timeout_ms", Some("timeout-ms")),
            ("timeout", Some("timeout-ms")),
            ("keyvalue", Some("key-value")),
            ("https", Some("http")),
            ("htpt", Some("http")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (found, expected) in rows {
            assert_eq!(nearest(found, &words).as_deref(), expected, "{found}");
        }
        assert_eq!(nearest(&"name".repeat(1000), &words), None);
    }

    #[test]
    fn problems_are_counted_and_the_first_are_listed() {
        let problem = Problem {
            line: 3,
            column: 1,
            found: "unknown key \"diggest\" in a component".into(),
            nearest: Some("digest".into()),
            remedy: "allowed: name, digest".into(),
        };
        let one = Problems { listed: vec![problem.clone()], others: 0 };
        assert_eq!(
            one.to_string(),
            "1 problem in the policy:\n  line 3, column 1: unknown key \"diggest\" in a component; did you mean \"digest\"? allowed: name, digest"
        );
        let many = Problems { listed: vec![problem], others: 2 }.to_string();
        assert!(
            many.starts_with("3 problems in the policy:\n") && many.ends_with("\n  … and 2 more"),
            "{many}"
        );
    }
}
