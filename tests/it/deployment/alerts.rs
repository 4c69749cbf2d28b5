//! The alert rules: promtool accepts them, each has cases and an entry in the runbook.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{list, place, run, shown, string, text, yaml};

const RULES: &str = "prometheus/alerts.yaml";
const CASES: &str = "prometheus/alerts.test.yaml";

/// Every rule.
pub(super) fn alerts() -> Vec<Value> {
    let groups = yaml(RULES).remove(0);
    let rules = list(&groups["groups"]).iter().flat_map(|group| list(&group["rules"]).iter().cloned());
    let rules: Vec<_> = rules.collect();
    assert!(rules.len() > 20, "the rules of {RULES} are read");
    rules
}

fn names() -> BTreeSet<String> {
    let alerts = alerts();
    let names: BTreeSet<_> = alerts.iter().map(|rule| string(&rule["alert"]).to_owned()).collect();
    assert_eq!(names.len(), alerts.len(), "no two rules have one name");
    names
}

/// promtool makes a store on the disk for each case and flushes it; in memory that is done in seconds.
fn promtool(arguments: &[&str], file: &str) -> (bool, String) {
    let folder = if Path::new("/dev/shm").is_dir() {
        tempfile::tempdir_in("/dev/shm").unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let output = run(Command::new("promtool").args(arguments).arg(place(file)).env("TMPDIR", folder.path()));
    (output.status.success(), shown(&output))
}

#[test]
fn promtool_accepts_the_rules() {
    let (accepted, said) = promtool(&["check", "rules"], RULES);
    assert!(accepted && said.contains(&format!("{} rules found", names().len())), "{said}");
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let (passed, said) = promtool(&["test", "rules"], CASES);
    assert!(passed && said.contains("SUCCESS"), "{said}");
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_does_not() {
    let mut cases: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for test in list(&yaml(CASES)[0]["tests"]) {
        for case in list(&test["alert_rule_test"]) {
            let fires = !list(&case["exp_alerts"]).is_empty();
            cases.entry(string(&case["alertname"]).to_owned()).or_default().insert(fires);
        }
    }
    let both = BTreeSet::from([false, true]);
    let expected: BTreeMap<_, _> = names().into_iter().map(|name| (name, both.clone())).collect();
    assert_eq!(cases, expected);
}

#[test]
fn every_alert_has_an_entry_in_the_runbook_and_every_entry_an_alert() {
    let runbook = text("runbook.md");
    let entries: BTreeMap<&str, &str> = runbook
        .split("\n## ")
        .skip(1)
        .map(|entry| entry.split_once('\n').expect("an entry has a text"))
        .collect();
    let alerts = names();
    assert_eq!(entries.keys().copied().collect::<BTreeSet<_>>(), alerts.iter().map(String::as_str).collect());
    for (name, entry) in entries {
        for part in ["**Means.** ", "**Look at.** ", "**Do.** "] {
            assert!(entry.contains(&format!("\n{part}")), "the entry {name} has no {part}");
        }
    }
}

/// `*Memory*` is a panel by its title, or by how that begins.
#[test]
fn every_panel_that_the_runbook_names_is_on_the_dashboard() {
    let (runbook, dashboard) = (text("runbook.md").replace("**", ""), text("grafana/agent-host.json"));
    let panels: Vec<_> = runbook.split('*').skip(1).step_by(2).collect();
    assert!(panels.len() > 20, "{panels:?}");
    for panel in panels {
        let title = panel.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(dashboard.contains(&format!("\"title\": \"{title}")), "there is no panel {title}");
    }
}

#[test]
fn every_alert_says_how_urgent_it_is_and_where_to_read_on() {
    for rule in alerts() {
        let name = string(&rule["alert"]);
        assert!(["page", "ticket"].contains(&string(&rule["labels"]["severity"])), "{name}");
        assert!(!string(&rule["annotations"]["summary"]).is_empty(), "{name}");
        let entry = format!("host/deploy/runbook.md#{}", name.to_lowercase());
        assert_eq!(string(&rule["annotations"]["runbook_url"]), entry, "{name}");
    }
}
