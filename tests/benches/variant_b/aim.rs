//! A number beside what it is meant to be.

/// A ratio that is meant to be high.
pub(crate) fn at_least(what: &str, ratio: f64, aim: f64) -> String {
    format!("{ratio:.1} times the {what} (aim: {aim}{})", missed(ratio < aim))
}

/// A ratio that is meant to be low.
pub(crate) fn at_most(what: &str, ratio: f64, aim: f64) -> String {
    format!("{ratio:.2} of {what} (aim: {aim}{})", missed(ratio > aim))
}

fn missed(missed: bool) -> &'static str {
    if missed { ", missed" } else { "" }
}
