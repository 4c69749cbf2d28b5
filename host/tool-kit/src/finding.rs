//! What was found about a component, in order of weight.

use serde::Serialize;

/// How much it weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The component does not work, or not as it says: the check fails.
    Fault,
    /// The tool works, and models or operators will have trouble with it.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How much it weighs.
    pub weight: Weight,
    /// The tool; absent when it is the component's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What was found and what to do about it.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    /// About a tool, or the whole component.
    pub fn new(weight: Weight, tool: Option<&str>, text: impl Into<String>) -> Self {
        Self { weight, tool: tool.map(str::to_owned), text: text.into(), command: None }
    }
}

impl Weight {
    fn word(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

pub fn has_fault(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.weight == Weight::Fault)
}

/// The findings as text, the heaviest first, and how many there are.
pub fn report(findings: &[Finding]) -> String {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.weight);
    let mut text = String::new();
    for Finding { weight, tool, text: found, command } in sorted {
        let tool = tool.as_ref().map(|tool| format!("{tool}: ")).unwrap_or_default();
        text.push_str(&format!("{}: {tool}{}\n", weight.word(), found.replace('\n', "\n    ")));
        if let Some(command) = command {
            text.push_str(&format!("    {command}\n"));
        }
    }
    let count = |weight| {
        let count = findings.iter().filter(|finding| finding.weight == weight).count();
        format!("{count} {}{}", weight.word(), if count == 1 { "" } else { "s" })
    };
    let counts = [Weight::Fault, Weight::Warning, Weight::Note].map(count);
    text + &counts.join(", ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_comes_first() {
        let mut fault = Finding::new(Weight::Fault, Some("add"), "it traps:\nof 1");
        fault.command = Some("agent-host tool run add '{}'".into());
        let findings = [Finding::new(Weight::Note, None, "small"), fault];
        insta::assert_snapshot!(report(&findings), @"
        fault: add: it traps:
            of 1
            agent-host tool run add '{}'
        note: small
        1 fault, 0 warnings, 1 note
        ");
        assert!(has_fault(&findings) && !has_fault(&findings[..1]));
    }
}
