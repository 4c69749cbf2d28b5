//! The findings of one comparison, as many as are listed, and what they come to.
//!
//! Whoever writes a component decides how many differences there are and what the names in them are. So texts
//! are cut and made visible, and only so many findings are kept; what is not listed is counted and still
//! decides the impact.

use std::fmt::Display;

use agent_core::words::{Finding, Impact};
use json_schema::text_sanitizer::printable;
use serde_json::Value;

pub(super) const MOST_FINDINGS: usize = 200;

/// Most bytes of a place, of a sentence, and of what is quoted within one, about.
const PLACE_BYTES: usize = 240;
const TEXT_BYTES: usize = 600;
const QUOTED_BYTES: usize = 80;

/// Characters of a text that are shown before the first that differs.
const CONTEXT_CHARS: usize = 20;

/// The findings until now.
#[derive(Debug, Default)]
pub(super) struct Findings {
    breaking: Listed,
    review: Listed,
    safe: Listed,
    pub(super) widens: bool,
    pub(super) changes_what_models_read: bool,
}

/// The findings of one impact.
#[derive(Debug, Default)]
struct Listed {
    findings: Vec<Finding>,
    unlisted: usize,
}

impl Listed {
    fn count(&self) -> usize {
        self.findings.len().saturating_add(self.unlisted)
    }
}

impl Findings {
    /// Adds a difference. The text is a sentence without its full stop.
    pub(super) fn note(&mut self, impact: Impact, place: &str, text: impl Display) {
        let listed = match impact {
            Impact::Breaking => &mut self.breaking,
            Impact::Review => &mut self.review,
            Impact::Safe => &mut self.safe,
        };
        if listed.findings.len() >= MOST_FINDINGS {
            listed.unlisted = listed.unlisted.saturating_add(1);
            return;
        }
        let (place, text) = (printable(place, PLACE_BYTES), printable(&text.to_string(), TEXT_BYTES));
        listed.findings.push(Finding { impact, place, text });
    }

    pub(super) fn count(&self) -> usize {
        [&self.breaking, &self.review, &self.safe].into_iter().map(Listed::count).sum()
    }

    pub(super) fn impact(&self) -> Impact {
        if self.breaking.count() > 0 {
            Impact::Breaking
        } else if self.review.count() > 0 {
            Impact::Review
        } else {
            Impact::Safe
        }
    }

    /// The gravest first, and in the end how many are not listed.
    pub(super) fn list(self) -> Vec<Finding> {
        let (count, breaking, review) = (self.count(), self.breaking.count(), self.review.count());
        let parts = [self.breaking, self.review, self.safe].into_iter().flat_map(|listed| listed.findings);
        let mut list: Vec<Finding> = parts.take(MOST_FINDINGS).collect();
        let unlisted = count.saturating_sub(list.len());
        if unlisted > 0 {
            let impact = if breaking > list.len() {
                Impact::Breaking
            } else if breaking.saturating_add(review) > list.len() {
                Impact::Review
            } else {
                Impact::Safe
            };
            let text = format!(
                "{unlisted} more differences are not listed: of {count} in all, {breaking} are breaking and {review} are \
                 to be reviewed"
            );
            list.push(Finding { impact, place: "more".into(), text });
        }
        list
    }
}

/// A stranger's word or sentence, cut, made visible and between quotation marks.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text, QUOTED_BYTES))
}

/// A stranger's value, as JSON, cut and made visible.
pub(super) fn shown(value: &Value) -> String {
    printable(&value.to_string(), QUOTED_BYTES)
}

/// Several words, the first few of them.
pub(super) fn listed<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    const MOST: usize = 6;
    let words: Vec<T> = words.into_iter().collect();
    let mut text =
        words.iter().take(MOST).map(|word| printable(word.as_ref(), QUOTED_BYTES)).collect::<Vec<_>>();
    if words.len() > MOST {
        text.push(format!("and {} more", words.len() - MOST));
    }
    text.join(", ")
}

/// Both texts from shortly before the first character that differs.
pub(super) fn around_the_difference(before: &str, after: &str) -> (String, String) {
    let same = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let skipped = same.saturating_sub(CONTEXT_CHARS);
    let from = |text: &str| {
        let rest: String = text.chars().skip(skipped).collect();
        if skipped > 0 { format!("…{rest}") } else { rest }
    };
    (from(before), from(after))
}
