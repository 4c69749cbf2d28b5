//! The hints of a tool held against what its component imports and what its calls were seen to do.

use serde::Serialize;

use crate::finding::{Finding, Weight};

/// What a tool promises of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Promises {
    /// A call changes nothing anywhere.
    pub read_only: bool,
    /// A repeated call changes nothing more.
    pub idempotent: bool,
    /// The answer depends on the arguments alone.
    pub pure: bool,
    /// A call may lose something.
    pub destructive: bool,
}

/// What calls of a tool, or of a whole component, were seen to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCalls {
    /// How many calls ran.
    pub calls: usize,
    /// Requests that were made, by method.
    pub requests: Vec<String>,
    /// How often a value was read, and how often one was written.
    pub reads: usize,
    /// See `reads`.
    pub writes: usize,
}

impl Promises {
    /// Promises that these hints make.
    pub fn of(hints: &[(String, String)]) -> Self {
        let says = |key: &str| hints.iter().any(|(own, value)| own == key && value == "true");
        Self {
            read_only: says("read-only"),
            idempotent: says("idempotent"),
            pure: says("pure"),
            destructive: says("destructive"),
        }
    }

    /// Where the promises do not go together, with each other or with what the component imports.
    pub fn contradictions(&self, tool: &str, imports: &[String]) -> Vec<Finding> {
        let mut found = vec![];
        let mut say = |weight, text: String| found.push(Finding::new(weight, Some(tool), text));
        if self.destructive {
            for (says, hint) in
                [(self.read_only, "read-only"), (self.idempotent, "idempotent"), (self.pure, "pure")]
            {
                if says {
                    say(
                        Weight::Fault,
                        format!(
                            "it says that it is {hint} and destructive: the host believes the worse; take one of the two away"
                        ),
                    );
                }
            }
        }
        let beyond: Vec<_> = imports
            .iter()
            .filter(|import| {
                !import.starts_with("agent:tool/log@") && !import.starts_with("agent:tool/types@")
            })
            .map(String::as_str)
            .collect();
        if self.pure && !beyond.is_empty() {
            say(
                Weight::Fault,
                format!(
                    "it says that it is pure, and its component imports {}: the host keeps answers only of components that import \
                     nothing but agent:tool/log; take the hint away, or put the tool into a component of its own",
                    beyond.join(", ")
                ),
            );
        }
        if self.pure && !self.destructive && !(self.read_only && self.idempotent) {
            say(Weight::Warning, "it is pure and does not say that it is read-only and idempotent, which pure tools are: add both hints".into());
        }
        found
    }

    /// Where a call did what the tool promises not to do.
    pub fn broken(&self, tool: &str, seen: &ObservedCalls) -> Vec<Finding> {
        let mut found = vec![];
        if !self.read_only && !self.pure {
            return found;
        }
        let mut say = |weight, text: String| found.push(Finding::new(weight, Some(tool), text));
        if seen.writes > 0 {
            let text = format!(
                "it says that it is read-only, and wrote {} values in {} calls: take the hint away",
                seen.writes, seen.calls
            );
            say(Weight::Fault, text);
        }
        let changing: Vec<_> = seen
            .requests
            .iter()
            .filter(|method| !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS"))
            .cloned()
            .collect();
        if let Some(method) = changing.first() {
            let text = format!(
                "it says that it is read-only, and sent {} {method} requests: if they change something at the other end, take the hint away",
                changing.len()
            );
            say(Weight::Warning, text);
        }
        found
    }
}

/// Imports that nothing was seen to use. Only of some can that be seen.
pub fn unused(imports: &[String], seen: &ObservedCalls) -> Vec<Finding> {
    let mut found = vec![];
    let imported = |prefix: &str| imports.iter().find(|import| import.starts_with(prefix));
    let mut say = |import: &str| {
        let text = format!(
            "it imports {import} and did not use it in {} calls: if no call ever does, build it without, and it needs no grant",
            seen.calls
        );
        found.push(Finding::new(Weight::Note, None, text));
    };
    if seen.calls == 0 {
        return vec![];
    }
    if let Some(import) = imported("wasi:http/").filter(|_| seen.requests.is_empty()) {
        say(import);
    }
    if let Some(import) = imported("agent:tool/key-value@").filter(|_| seen.reads + seen.writes == 0) {
        say(import);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(findings: &[Finding]) -> String {
        findings
            .iter()
            .map(|finding| format!("{:?}: {}", finding.weight, finding.text))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn promises(hints: &[&str]) -> Promises {
        Promises::of(&hints.iter().map(|hint| ((*hint).to_owned(), "true".to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn promises_that_do_not_go_together_are_named() {
        let imports = ["agent:tool/log@0.1.1", "agent:tool/clock@0.1.1"].map(str::to_owned);
        insta::assert_snapshot!(text(&promises(&["read-only", "destructive"]).contradictions("t", &[])),
            @"Fault: it says that it is read-only and destructive: the host believes the worse; take one of the two away");
        insta::assert_snapshot!(text(&promises(&["pure"]).contradictions("t", &imports)), @"
        Fault: it says that it is pure, and its component imports agent:tool/clock@0.1.1: the host keeps answers only of components that import nothing but agent:tool/log; take the hint away, or put the tool into a component of its own
        Warning: it is pure and does not say that it is read-only and idempotent, which pure tools are: add both hints
        ");
        assert_eq!(promises(&["pure", "read-only", "idempotent"]).contradictions("t", &imports[..1]), []);
    }

    #[test]
    fn what_a_call_did_against_its_promise_is_named() {
        let seen =
            ObservedCalls { calls: 3, requests: vec!["GET".into(), "POST".into()], reads: 1, writes: 2 };
        insta::assert_snapshot!(text(&promises(&["read-only"]).broken("t", &seen)), @"
        Fault: it says that it is read-only, and wrote 2 values in 3 calls: take the hint away
        Warning: it says that it is read-only, and sent 1 POST requests: if they change something at the other end, take the hint away
        ");
        assert_eq!(promises(&["idempotent"]).broken("t", &seen), []);
    }

    #[test]
    fn an_import_that_is_not_used_is_a_note() {
        let imports = ["wasi:http/types@0.2.6", "agent:tool/key-value@0.1.1"].map(str::to_owned);
        let seen = ObservedCalls { calls: 3, ..ObservedCalls::default() };
        assert_eq!(unused(&imports, &seen).len(), 2);
        assert_eq!(
            unused(&imports, &ObservedCalls { requests: vec!["GET".into()], reads: 1, ..seen.clone() }),
            []
        );
        assert_eq!(unused(&imports, &ObservedCalls::default()), []);
    }
}
