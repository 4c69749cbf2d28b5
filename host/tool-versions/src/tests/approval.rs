//! Who approves a proposal.

use agent_core::words::{ComponentRecord, Impact, VersionDiff, VersionSource, VersionStatus};

use super::{NOW, digest, facts, of_version, upload, version};
use crate::approval::{Circumstances, baseline, review};
use crate::diff::diff;

fn of_policy(diff: &VersionDiff) -> Circumstances<'_> {
    Circumstances { required: true, named_in_policy: false, diff, now: NOW }
}

fn serving() -> ComponentRecord {
    let version = version("old", VersionSource::Folder, Some("policy"));
    let (active, known) = (Some(version.digest.clone()), vec![version.digest.clone()]);
    ComponentRecord { enabled: true, active, known, versions: vec![version], ..ComponentRecord::default() }
}

/// What differs in a version of this description from the one that serves.
fn diff_of(record: Option<&ComponentRecord>, description: &str) -> VersionDiff {
    let mut new = facts();
    new.tools.iter_mut().for_each(|tool| tool.description = description.into());
    let serves = baseline(record).map(|version| of_version(&version.digest, &version.facts));
    diff(serves, of_version(&digest("new"), &new), None)
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

/// Why a version waits.
fn reasons(record: Option<&ComponentRecord>, diff: &VersionDiff) -> Vec<String> {
    match review(record, &of_policy(diff)) {
        VersionStatus::Waiting { because } => because,
        VersionStatus::Approved { by, .. } => panic!("approved by {by}"),
    }
}

#[test]
fn each_rule_in_its_order() {
    const SAME: &str = "Adds two numbers.";
    let record = serving();
    // Whether approvals are asked for, whether the policy names it, and who approves it: whether it is new,
    // is as it was or reads otherwise.
    let table =
        [(false, false, "off"), (false, true, "off"), (true, true, "policy"), (true, false, "nobody")];
    for (required, named_in_policy, expected) in table {
        for (record, description) in [(None, SAME), (Some(&record), SAME), (Some(&record), "Adds, and more.")]
        {
            let diff = diff_of(record, description);
            let circumstances = Circumstances { required, named_in_policy, ..of_policy(&diff) };
            let found = review(record, &circumstances);
            assert_eq!(approver(&found), expected, "{required} {named_in_policy} {description}");
        }
    }
}

#[test]
fn whatever_waits_says_why() {
    let record = serving();
    for impact in [Impact::Safe, Impact::Review, Impact::Breaking] {
        let diff = VersionDiff { impact, ..diff_of(Some(&record), "Adds two numbers.") };
        assert_eq!(
            reasons(Some(&record), &diff),
            ["its bytes are others than those that were approved: see the diff"],
            "{diff:?}"
        );
    }
    let diff = diff_of(Some(&record), "Adds more.");
    assert_eq!(
        reasons(Some(&record), &diff),
        ["tools.add.description: the model read \"Adds two numbers.\", it reads \"Adds more.\""]
    );
    let diff = diff_of(None, "Adds.");
    let many = VersionDiff { findings: diff.findings.iter().cycle().take(50).cloned().collect(), ..diff };
    let because = reasons(None, &many);
    assert_eq!((because.len(), because.last().map(String::as_str)), (9, Some("and 42 more: see the diff")));
}

#[test]
fn a_diff_against_another_version_than_serves_is_no_reason() {
    let mut record = serving();
    let diff = diff_of(Some(&record), "Adds more.");
    record.versions.push(version("other", upload(), Some("user:anna")));
    record.active = Some(digest("other"));
    assert_eq!(
        reasons(Some(&record), &diff),
        ["it was not compared with the version that serves now: propose it again"]
    );
}

#[test]
fn what_was_deleted_counts_as_new() {
    let record = ComponentRecord { deleted: true, known: vec![digest("old")], ..ComponentRecord::default() };
    let diff = diff_of(Some(&record), "Adds two numbers.");
    assert_eq!(reasons(Some(&record), &diff), ["the component was deleted, so it counts as new"]);
}
