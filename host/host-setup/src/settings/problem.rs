//! What is wrong with the variables: all of it, in one message, without a secret.

use std::fmt;
use std::time::Duration;

use super::setting::{Need, Setting};

/// Longest found value that is shown whole. More would push what matters off the screen.
const SHOWN_CHARACTERS: usize = 60;

/// Stands behind an address whose scheme is right: mostly a password breaks it.
const BROKEN_ADDRESS: &str =
    ", which is not whole or not well-formed: a password has # / ? @ % and the like percent-encoded";

/// Everything that is wrong, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<Problem>);

/// One setting that keeps the service from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The name of the variable.
    pub variable: &'static str,
    /// What was found, as it may be shown.
    pub found: String,
    /// What it may hold.
    pub allowed: String,
}

impl Problems {
    /// One entry per variable and mistake.
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl Problem {
    /// Neither a value nor anything to fall back on.
    pub fn missing(setting: &Setting, empty: bool) -> Self {
        let found = if empty { "empty" } else { "not set" };
        let why = match setting.need {
            Need::Always | Need::Never => "but always needed",
            Need::VariantB => "but needed when SERVICE_VARIANT is b or both",
        };
        Self::because(setting, format!("{found}, {why}"))
    }

    /// Nothing, and the command that asks needs it.
    pub fn missing_for_command(setting: &Setting) -> Self {
        Self::because(setting, "not set, but needed by this command".to_owned())
    }

    /// Needed because of another variable.
    pub fn missing_beside(setting: &Setting, other: &Setting) -> Self {
        Self::because(setting, format!("not set, but needed because {} is", other.name))
    }

    /// A time that ends less than a second after another one.
    pub fn not_a_second_after(setting: &Setting, found: Duration, other: &Setting) -> Self {
        let (found, other) = (found.as_millis(), other.name);
        Self::because(setting, format!("found {found}, which is less than a second more than {other}"))
    }

    /// A value that is not allowed.
    pub fn refused(setting: &Setting, value: &str) -> Self {
        let found = if setting.kind.is_hidden() { outline(value) } else { quote(value) };
        let broken = if setting.kind.begins(value) { BROKEN_ADDRESS } else { "" };
        Self::because(setting, format!("found {found}{broken}"))
    }

    /// Bytes that are no text. They are not shown: nobody could read them.
    pub fn not_text(setting: &Setting) -> Self {
        Self::because(setting, "found bytes that are not UTF-8".to_owned())
    }

    fn because(setting: &Setting, found: String) -> Self {
        Self { variable: setting.name, found, allowed: setting.kind.to_string() }
    }
}

/// The value in quotes, on one line, and not too much of it.
fn quote(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARACTERS) {
        // `{:?}` escapes line breaks and control characters, so that a value cannot fake a line.
        Some((end, _)) => format!("{:?}…", value.get(..end).unwrap_or_default()),
        None => format!("{value:?}"),
    }
}

/// What may be said of a value that may hold a secret: its scheme if it is a URL, and nothing of a text that
/// only looks a little like one (`user:password@host` would have a "scheme" too).
fn outline(value: &str) -> String {
    let scheme = value.split_once("://").map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &&str| {
        (1..=16).contains(&scheme.len())
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|other| other.is_ascii_alphanumeric() || "+-.".contains(other))
    };
    match scheme.filter(is_scheme) {
        Some(scheme) => format!("a {scheme}:// address (not shown)"),
        None => "a value (not shown)".to_owned(),
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "{} problem{plural} with the environment variables:", self.0.len())?;
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; allowed: {}", self.variable, self.found, self.allowed)
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::super::setting::url;
    use super::*;

    #[test]
    fn an_address_of_the_right_scheme_is_told_what_is_wrong_with_it() {
        let setting = Setting { name: "DATABASE_URL", ..url(&["postgres", "sqlite"]) };
        let refused = |value| Problem::refused(&setting, value).to_string();
        assert_eq!(
            refused("postgres://root:hunter#2@db/agents"),
            "DATABASE_URL: found a postgres:// address (not shown), which is not whole or not well-formed: a \
             password has # / ? @ % and the like percent-encoded; allowed: a URL that starts with postgres:// \
             or sqlite://"
        );
        assert_eq!(
            refused("mysql://root@db"),
            "DATABASE_URL: found a mysql:// address (not shown); allowed: a URL that starts with postgres:// or \
             sqlite://"
        );
    }

    #[test]
    fn values_are_shown_on_one_line_and_cut() {
        assert_eq!(quote("a\nb\u{1b}[31m"), r#""a\nb\u{1b}[31m""#);
        assert_eq!(quote(&"ä".repeat(60)), format!("\"{}\"", "ä".repeat(60)));
        assert_eq!(quote(&"ä".repeat(61)), format!("\"{}\"…", "ä".repeat(60)));
    }

    #[test]
    fn of_a_hidden_value_only_a_scheme_is_shown() {
        for (value, shown) in [
            ("mysql://user:hunter2@host/db", "a mysql:// address (not shown)"),
            ("postgres+tls://host", "a postgres+tls:// address (not shown)"),
            ("hunter2", "a value (not shown)"),
            ("user:hunter2@host", "a value (not shown)"),
            ("hunter2/hunter2://x", "a value (not shown)"),
            ("://x", "a value (not shown)"),
        ] {
            assert_eq!(outline(value), shown, "{value}");
        }
    }
}
