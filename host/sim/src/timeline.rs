//! A simulation as a time line for people.

use std::fmt::Write as _;

use crate::world::Line;

/// One line for each thing that happened.
pub fn timeline(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { at, who, what, subject, outcome } in lines {
        // silent-ok: writing to a text never fails.
        let _ = writeln!(text, "{:>10.3} s  {who:<14} {what:<26} {subject:<36} {outcome}", at.as_secs_f64());
    }
    text
}
