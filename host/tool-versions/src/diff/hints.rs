//! What a tool says of itself, compared by what the host does with it.

use std::collections::BTreeSet;

use agent_core::words::{Impact, ToolFacts};

use super::findings::{Findings, quoted};

/// What the host makes of a tool's hints. `definition` decides the same for tools that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Treatment {
    /// Answers of the tool may go to others who ask the same, and a call that crashed is made again.
    read_only: bool,
    /// Calls that failed are made again, also by another process after a crash.
    repeatable: bool,
    /// Calls of the tool go one after another.
    destructive: bool,
    /// Answers are kept and given again.
    pure: bool,
    /// Milliseconds after which it is stopped, if that is before the host's own limit.
    timeout: u64,
}

impl Treatment {
    fn of(tool: &ToolFacts) -> Self {
        let says = |hint: &str| tool.hints.get(hint).is_some_and(|value| value == "true");
        let destructive = says("destructive");
        let timeout = tool.hints.get("timeout-ms").and_then(|text| text.parse().ok());
        Self {
            read_only: says("read-only") && !destructive,
            repeatable: (says("read-only") || says("idempotent")) && !destructive,
            destructive,
            pure: says("pure") && !destructive,
            timeout: timeout.unwrap_or(u64::MAX),
        }
    }

    /// Why the host is less careful with `new` than with this one, or stops it sooner.
    fn relaxed_in(self, new: Self) -> Vec<&'static str> {
        let reasons = [
            (self.destructive && !new.destructive, "its calls no longer go one after another"),
            (!self.repeatable && new.repeatable, "calls that failed are made again"),
            (!self.read_only && new.read_only, "its answers may be given to others who ask the same"),
            (!self.pure && new.pure, "its answers are kept and given again without a call"),
            (new.timeout < self.timeout, "calls that take longer than it now says are stopped"),
        ];
        reasons.into_iter().filter_map(|(applies, reason)| applies.then_some(reason)).collect()
    }
}

pub(super) fn compare(old: &ToolFacts, new: &ToolFacts, place: &str, findings: &mut Findings) {
    let place = format!("{place}.hints");
    let relaxed = Treatment::of(old).relaxed_in(Treatment::of(new));
    if !relaxed.is_empty() {
        let text = format!(
            "what it says of itself makes the host less careful: {}; make sure that it is so",
            relaxed.join("; ")
        );
        findings.note(Impact::Review, &place, text);
    }
    let names: BTreeSet<&String> = old.hints.keys().chain(new.hints.keys()).collect();
    for name in names {
        let (name, text) = match (old.hints.get(name), new.hints.get(name)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(before), Some(after)) => (name, format!("was {}, it is {}", quoted(before), quoted(after))),
            (Some(before), None) => (name, format!("was {}, it is gone", quoted(before))),
            (None, Some(after)) => (name, format!("is new: {}", quoted(after))),
            (None, None) => continue,
        };
        findings.note(Impact::Safe, &place, format!("the hint {} {text}", quoted(name)));
    }
}
