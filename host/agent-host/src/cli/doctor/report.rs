//! What was found, for people and for programs.

use std::fmt;

use host_setup::output::plain;
use serde::Serialize;

/// How it stands with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// The service works, and somebody should look all the same.
    Warning,
    /// The service would not start, or not do all that it is to do.
    Failed,
}

/// What one check found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    state: State,
    found: String,
    /// What to do about it; nothing where all is well.
    #[serde(skip_serializing_if = "str::is_empty")]
    todo: &'static str,
}

/// All of it, in the order in which it is shown.
#[derive(Debug)]
pub(super) struct Report(pub(super) Vec<Finding>);

impl Finding {
    pub(super) fn ok(check: &'static str, found: String) -> Self {
        Self { check, state: State::Ok, found, todo: "" }
    }

    pub(super) fn warning(check: &'static str, found: String, todo: &'static str) -> Self {
        Self { check, state: State::Warning, found, todo }
    }

    pub(super) fn failed(check: &'static str, found: String, todo: &'static str) -> Self {
        Self { check, state: State::Failed, found, todo }
    }
}

impl Report {
    pub(super) fn has_failed(&self) -> bool {
        self.state() == State::Failed
    }

    /// The gravest.
    fn state(&self) -> State {
        self.0.iter().map(|finding| finding.state).max().unwrap_or(State::Ok)
    }

    pub(super) fn as_json(&self) -> serde_json::Result<String> {
        let json = serde_json::json!({ "state": self.state(), "checks": self.0 });
        host_setup::output::json_text(&json)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { check, state, found, todo } in &self.0 {
            let state = match state {
                State::Ok => "ok",
                State::Warning => "warning",
                State::Failed => "FAILED",
            };
            // Components and stores say what they like. Lines that a value begins could be taken for ours.
            let found = plain(found).replace('\n', "\n                      ");
            writeln!(f, "{state:<8} {check:<12} {found}")?;
            if !todo.is_empty() {
                writeln!(f, "                      to do: {todo}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report(vec![
            Finding::ok("settings", "all are valid".into()),
            Finding::warning("tools", "tools has none".into(), "make one"),
            Finding::failed("redis", "one\nok       fa\u{1b}[2Jke".into(), "start it"),
        ])
    }

    #[test]
    fn what_is_wrong_stands_beside_what_to_do() {
        insta::assert_snapshot!(report().to_string(), @r"
        ok       settings     all are valid
        warning  tools        tools has none
                              to do: make one
        FAILED   redis        one
                              ok       fa\u{1b}[2Jke
                              to do: start it
        ");
    }

    #[test]
    fn programs_read_the_gravest_state_and_every_check() {
        let json: serde_json::Value = serde_json::from_str(&report().as_json().unwrap()).unwrap();
        assert_eq!(json["state"], "failed");
        assert_eq!(
            json["checks"][0],
            serde_json::json!({ "check": "settings", "state": "ok", "found": "all are valid" })
        );
        assert_eq!(json["checks"][2]["todo"], "start it");
        assert!(report().has_failed() && !Report(vec![]).has_failed());
    }
}
