//! Who approves a proposal.

use agent_core::words::{ComponentRecord, Impact, VersionDiff, VersionSource, VersionStatus};

use super::{NOW, digest, facts, upload, version};
use crate::versions::approval::{Circumstances, baseline, review};
use crate::versions::diff::diff;

fn of_policy(diff: &VersionDiff) -> Circumstances<'_> {
    Circumstances { required: true, named_in_policy: false, first_reading: false, diff, now: NOW }
}

fn serving() -> ComponentRecord {
    let version = version("old", VersionSource::Folder, Some("first"));
    let (active, known) = (Some(version.digest.clone()), vec![version.digest.clone()]);
    ComponentRecord { enabled: true, active, known, versions: vec![version], ..ComponentRecord::default() }
}

/// What differs in a version of this description from the one that serves.
fn diff_of(record: Option<&ComponentRecord>, description: &str) -> VersionDiff {
    let mut new = facts();
    new.tools.iter_mut().for_each(|tool| tool.description = description.into());
    let serves = baseline(record).map(|version| (version.digest.as_str(), &version.facts));
    diff(serves, (&digest("new"), &new), None)
}

fn approver(status: &VersionStatus) -> &str {
    match status {
        VersionStatus::Approved { by, at } => {
            assert_eq!(*at, NOW);
            by
        }
        VersionStatus::Waiting { .. } => "nobody",
    }
}

#[test]
fn each_rule_in_its_order() {
    const SAME: &str = "Adds two numbers.";
    let record = serving();
    // Whether approvals are asked for, whether the policy names it, whether it is the first reading, and who approves a new
    // component, one that is as it was, and one that reads otherwise.
    let table = [
        (false, false, false, ["off", "off", "off"]),
        (false, true, true, ["off", "off", "off"]),
        (true, true, false, ["policy", "policy", "policy"]),
        (true, true, true, ["policy", "policy", "policy"]),
        (true, false, true, ["first", "unchanged", "nobody"]),
        (true, false, false, ["nobody", "unchanged", "nobody"]),
    ];
    for (required, named_in_policy, first_reading, expected) in table {
        let cases = [(None, SAME), (Some(&record), SAME), (Some(&record), "Adds, and more.")];
        let found = cases.map(|(record, description)| {
            let diff = diff_of(record, description);
            let circumstances =
                Circumstances { required, named_in_policy, first_reading, ..of_policy(&diff) };
            approver(&review(record, &VersionSource::Folder, &circumstances)).to_owned()
        });
        assert_eq!(found, expected, "{required} {named_in_policy} {first_reading}");
    }
}

#[test]
fn the_first_reading_is_that_of_the_folder() {
    let diff = diff_of(None, "Adds.");
    let circumstances = Circumstances { first_reading: true, ..of_policy(&diff) };
    assert_eq!(approver(&review(None, &VersionSource::Folder, &circumstances)), "first");
    let command_line = VersionSource::CommandLine { from: "a.wasm".into() };
    for source in [upload(), command_line] {
        assert_eq!(approver(&review(None, &source, &circumstances)), "nobody", "{source:?}");
    }
}

#[test]
fn whatever_somebody_should_look_at_waits_with_its_reasons() {
    let record = serving();
    for impact in [Impact::Safe, Impact::Review, Impact::Breaking] {
        for (widens, changes_what_models_read) in [(false, false), (true, false), (false, true)] {
            let diff = VersionDiff {
                impact,
                widens,
                changes_what_models_read,
                ..diff_of(Some(&record), "Adds two numbers.")
            };
            let status = review(Some(&record), &upload(), &of_policy(&diff));
            let is_unchanged = impact == Impact::Safe && !widens && !changes_what_models_read;
            assert_eq!(approver(&status) == "unchanged", is_unchanged, "{diff:?}");
        }
    }
    let diff = diff_of(Some(&record), "Adds more.");
    let VersionStatus::Waiting { because } = review(Some(&record), &upload(), &of_policy(&diff)) else {
        panic!()
    };
    assert_eq!(
        because,
        ["tools.add.description: the model read \"Adds two numbers.\", it reads \"Adds more.\""]
    );
    let diff = diff_of(None, "Adds.");
    let many = VersionDiff { findings: diff.findings.iter().cycle().take(50).cloned().collect(), ..diff };
    let VersionStatus::Waiting { because } = review(None, &upload(), &of_policy(&many)) else { panic!() };
    assert_eq!((because.len(), because.last().map(String::as_str)), (9, Some("and 42 more: see the diff")));
}

#[test]
fn a_diff_against_another_version_than_serves_approves_nothing() {
    let mut record = serving();
    let diff = diff_of(Some(&record), "Adds two numbers.");
    let status = review(Some(&record), &upload(), &of_policy(&diff));
    assert_eq!(approver(&status), "unchanged");
    record.versions.push(version("other", upload(), Some("user:anna")));
    record.active = Some(digest("other"));
    let VersionStatus::Waiting { because } = review(Some(&record), &upload(), &of_policy(&diff)) else {
        panic!()
    };
    assert_eq!(because, ["it was not compared with the version that serves now: propose it again"]);
}

#[test]
fn what_was_deleted_counts_as_new() {
    let record = ComponentRecord { deleted: true, known: vec![digest("old")], ..ComponentRecord::default() };
    let diff = diff_of(Some(&record), "Adds two numbers.");
    let circumstances = Circumstances { first_reading: true, ..of_policy(&diff) };
    let status = review(Some(&record), &VersionSource::Folder, &circumstances);
    assert_eq!(
        status,
        VersionStatus::Waiting { because: vec!["the component was deleted, so it counts as new".into()] }
    );
}
