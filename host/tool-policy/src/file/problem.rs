//! What is wrong with a policy file: all of it, each with its place and what to do, without a secret.

use std::fmt;

/// Most problems that are listed. The others are counted.
pub(super) const MOST_LISTED: usize = 100;

/// Everything that is wrong, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    pub(super) listed: Vec<Problem>,
    pub(super) others: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What was found, as it may be shown.
    pub found: String,
    /// The valid word that is nearest to what was found.
    pub nearest: Option<String>,
    /// What to do: `allowed: …`, `add: …`.
    pub remedy: String,
}

impl Problems {
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

#[cfg(test)]
mod tests {
    use super::*;

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
