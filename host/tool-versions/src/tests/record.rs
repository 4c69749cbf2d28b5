//! What may be done with a component, and what is refused in which words.

use agent_core::ports::{AdminError, TrialOptions, TrialRequest};
use agent_core::words::{ComponentRecord, Thresholds, TrialKind, TrialState, VersionStatus};

use super::component::{
    ANNA, Component, approve, approved, attempt, canary, file, found, proposed, replaced, serving, shadow,
    uploaded,
};
use super::{NOW, digest, upload, version};
use crate::record::Change;
use crate::record::draft::MOST_PREVIOUS;
use crate::record::proposals::{MOST_KNOWN, MOST_VERSIONS};

#[test]
fn an_approved_proposal_serves_at_once_and_one_that_waits_does_not() {
    let component = serving();
    assert!(component.record.enabled);
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    assert_eq!(component.line(), ("proposed", Some("sha256:1"), "approved by off; it serves"));
    let component = component.with(uploaded("2", Some("policy")));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(component.line().2, "approved by policy; it serves in place of sha256:1");
    let component = component.with(file("3", None)).with(file("4", None));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(component.line(), ("proposed", Some("sha256:4"), "it waits for an approval: it is new"));
    let kept: Vec<_> = component.record.versions.iter().map(|version| version.digest.as_str()).collect();
    assert_eq!(
        kept,
        ["sha256:4", "sha256:3", "sha256:2", "sha256:1"],
        "a newer one does not remove an older one"
    );
}

#[test]
fn a_digest_that_is_known_is_no_proposal() {
    let mut component = replaced().with(file("3", None));
    for name in ["1", "2"] {
        component.makes_no_difference(file(name, Some("off")));
        component.makes_no_difference(uploaded(name, Some("off")));
    }
    component.makes_no_difference(file("3", None));
    component.makes_no_difference(uploaded("3", None));
    // The bytes of version 3 are gone.
    component.record.versions.retain(|version| version.digest != digest("3"));
    component.makes_no_difference(file("3", None));
    let component = component.with(uploaded("3", None));
    assert_eq!(component.record.versions.first().unwrap().digest, digest("3"));
    assert_eq!(component.record.known, [digest("3"), digest("2"), digest("1")]);
    assert_eq!(
        component.line().2,
        "its bytes were gone and are kept again; it waits for an approval: it is new"
    );
}

#[test]
fn a_version_that_waits_is_approved_by_a_proposal_of_it_that_is_approved() {
    let mut component = replaced().with(file("3", None)).with(uploaded("3", Some("policy")));
    assert_eq!(component.serves(), (Some("sha256:3"), vec!["sha256:2", "sha256:1"]));
    assert_eq!(
        component.line(),
        (
            "approved",
            Some("sha256:3"),
            "it waited, and is approved by policy; it serves in place of sha256:2"
        )
    );
    component.makes_no_difference(uploaded("3", Some("policy")));

    let component = replaced().with(file("3", None)).with(shadow("3")).with(file("3", Some("policy")));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(
        component.line().2,
        "it waited, and is approved by policy; it is being tried, and serves once it is promoted"
    );
    // What serves was proposed after the file was found.
    let component = serving().with(file("2", None)).with(uploaded("3", Some("off"))).with(found("2", &["1"]));
    assert_eq!(component.serves(), (Some("sha256:3"), vec!["sha256:1"]));
}

#[test]
fn an_approval_has_the_newest_that_waits_serve() {
    let component = serving().with(file("2", None)).with(file("3", None)).with(approve(None));
    assert_eq!(component.serves(), (Some("sha256:3"), vec!["sha256:1"]));
    let status = &component.record.versions.first().unwrap().status;
    assert_eq!(*status, VersionStatus::Approved { by: ANNA.into(), at: NOW });
    assert_eq!(component.line(), ("approved", Some("sha256:3"), "it serves in place of sha256:1"));

    // What waits is older than what serves.
    let mut component = component;
    component.refuses(
        approve(None),
        "sha256:2 waits, but it was proposed before sha256:3, which serves: name its digest if it is to take \
         that one's place",
    );
    component.makes_no_difference(approve(Some("3")));
    component.refuses(
        approve(Some("1")),
        "sha256:1 is approved already: promote it to have it serve, or roll back to it if it served before",
    );
    component.refuses(
        approve(Some("9")),
        "it has no version sha256:9. There is sha256:3 (serves), sha256:2 (waits), sha256:1 (served before)",
    );
    let component = component.with(approve(Some("2")));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:3", "sha256:1"]));
    assert_eq!(
        component.line().2,
        "it was proposed before the version that served; it serves in place of sha256:3"
    );
    replaced().refuses_as(approve(None), "no version waits for an approval. There is sha256:2");

    let component = approved();
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    assert_eq!(component.line(), ("approved", Some("sha256:2"), "it does not serve yet"));
}

#[test]
fn a_rollback_that_cannot_be_says_what_there_is() {
    let back_to = |name: &str| Change::Rollback(Some(digest(name)));
    serving().refuses(Change::Rollback(None), "no other version served before. There is sha256:1 (serves)");
    let mut component = replaced().with(file("3", None));
    let there_is = "There is sha256:3 (waits), sha256:2 (serves), sha256:1 (served before)";
    assert_eq!(
        component.refused(back_to("2")),
        AdminError::Conflict(format!("sha256:2 serves already. {there_is}"))
    );
    assert_eq!(
        component.refused(back_to("9")),
        AdminError::UnknownVersion(format!("it has no version sha256:9. {there_is}"))
    );
    assert_eq!(
        component.refused(back_to("3")),
        AdminError::Conflict("sha256:3 waits for an approval: approve it first".into())
    );
    component.record.versions.retain(|version| version.digest != digest("1"));
    component.refuses(
        back_to("1"),
        "the bytes of sha256:1 are gone; upload them again to have that version back. There is sha256:3 (waits), sha256:2 \
         (serves)",
    );
    approved().refuses(
        back_to("2"),
        "sha256:2 is not among the last versions that served: promote it to have it serve. There is sha256:2 (approved), \
         sha256:1 (serves)",
    );
}

#[test]
fn a_rollback_ends_a_trial() {
    // Of a canary the version that served before is the one it is tried against.
    let component = replaced().with(canary("1")).with(Change::Rollback(None));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(component.trial().state, TrialState::Ended { because: "rolled back".into(), at: NOW });
    assert_eq!(
        component.line(),
        ("rolled back", Some("sha256:1"), "the trial of sha256:1 ended; sha256:2 goes on serving")
    );
    // A shadow serves nobody, so it is the version that serves which goes back.
    let component = replaced().with(file("3", None)).with(shadow("3")).with(Change::Rollback(None));
    assert_eq!(component.serves(), (Some("sha256:1"), vec!["sha256:2"]));
    assert_eq!(component.line().2, "it serves in place of sha256:2; the trial of sha256:3 ended");
    // To the version that serves, while something is tried: that ends, and nothing else.
    let component =
        replaced().with(file("3", None)).with(shadow("3")).with(Change::Rollback(Some(digest("2"))));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert!(matches!(component.trial().state, TrialState::Ended { .. }));
}

#[test]
fn a_component_is_disabled_enabled_and_deleted() {
    let mut component = replaced().with(canary("1"));
    component.makes_no_difference(Change::Enable);
    let mut component = component.with(Change::Disable);
    assert_eq!(component.line(), ("disabled", Some("sha256:2"), "the trial of sha256:1 ended"));
    component.makes_no_difference(Change::Disable);
    component.refuses_as(canary("1"), "the component is disabled");
    let component = component.with(uploaded("3", Some("off")));
    assert!(!component.record.enabled, "a proposal enables nothing");
    assert_eq!(
        component.line().2,
        "approved by off; it serves in place of sha256:2; the component is disabled, so only once that is enabled"
    );
    let component = component.with(Change::Enable);
    assert_eq!(component.line(), ("enabled", Some("sha256:3"), ""));

    let mut component = component.with(Change::Delete);
    assert_eq!(component.line(), ("deleted", Some("sha256:3"), "it had 3 versions"));
    let known = vec![digest("3"), digest("2"), digest("1")];
    assert_eq!(component.record, ComponentRecord { deleted: true, known, ..ComponentRecord::default() });
    for change in [
        Change::Enable,
        Change::Disable,
        Change::Delete,
        Change::Rollback(None),
        Change::Promote(None),
        Change::EndTrial,
        approve(None),
        canary("3"),
    ] {
        assert_eq!(component.refused(change.clone()), AdminError::UnknownComponent);
        assert_eq!(Component::default().refused(change), AdminError::UnknownComponent);
    }
    component.makes_no_difference(file("3", Some("off")));
    component.makes_no_difference(file_gone());
    let component = component.with(file("4", None));
    assert!(component.record.enabled && !component.record.deleted);
    assert_eq!((component.serves(), component.record.known.len()), ((None, vec![]), 4));
}

/// The file of the third version is gone.
fn file_gone() -> Change {
    Change::FileGone { digest: digest("3") }
}

#[test]
fn a_version_stops_with_its_file_and_returns_with_it() {
    let mut component = replaced();
    component.makes_no_difference(file_gone());
    let mut component = component.with(file("3", Some("off"))).with(canary("2"));
    // The loss of another version's file says nothing of the version that serves.
    component.makes_no_difference(Change::FileGone { digest: digest("2") });
    let component = component.with(file_gone());
    assert_eq!(component.serves(), (None, vec!["sha256:3", "sha256:2", "sha256:1"]));
    assert_eq!(
        component.line(),
        (
            "stopped",
            Some("sha256:3"),
            "its file was taken out of the tools folder: put it back, or roll back to a version, to have it serve; the trial \
             of sha256:2 ended"
        )
    );
    let mut component = component;
    component.makes_no_difference(file_gone());
    component.refuses_as(canary("2"), "no version serves that another could be compared with");
    // Not any file that is known, but the one that served last.
    component.makes_no_difference(file("1", Some("off")));
    let component = component.with(file("3", Some("off")));
    assert_eq!(component.serves(), (Some("sha256:3"), vec!["sha256:2", "sha256:1"]));
    assert_eq!(component.line().2, "its file is back in the tools folder; it serves");
    let component = component.with(file_gone()).with(Change::Rollback(Some(digest("2"))));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:3", "sha256:1"]));
}

#[test]
fn a_version_is_tried_beside_the_one_that_serves() {
    let component = approved().with(attempt(TrialKind::Canary, None));
    assert_eq!(component.line(), ("canary", Some("sha256:2"), "5 % of the runs, compared with sha256:1"));
    let trial = component.trial();
    assert_eq!(
        (trial.digest.as_str(), trial.against.as_str(), trial.by.as_str()),
        ("sha256:2", "sha256:1", ANNA)
    );
    assert_eq!((trial.id.as_str(), trial.since, &trial.state), ("t1", NOW, &TrialState::Running));
    // One that waits may run where nobody sees it, and be approved meanwhile.
    let component =
        serving().with(uploaded("2", None)).with(attempt(TrialKind::Shadow, None)).with(approve(None));
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    assert_eq!(component.line().2, "it is being tried, and serves once it is promoted");
    let component = component.with(Change::Promote(None));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(
        component.line(),
        ("promoted", Some("sha256:2"), "it serves in place of sha256:1; the trial of sha256:2 ended")
    );
    // A proposal that could serve at once waits for the end of the trial; one that is made to serve ends it.
    let component = approved().with(canary("2")).with(uploaded("3", Some("policy")));
    assert_eq!((&component.trial().state, component.serves().0), (&TrialState::Running, Some("sha256:1")));
    let component = component.with(Change::Promote(Some(digest("3"))));
    assert_eq!(component.trial().state, TrialState::Ended { because: "sha256:3 took over".into(), at: NOW });
    let component = approved().with(canary("2")).with(Change::EndTrial);
    assert_eq!(component.trial().state, TrialState::Ended { because: "ended by user:anna".into(), at: NOW });
}

#[test]
fn a_trial_that_cannot_be_says_why() {
    let mut waiting = serving().with(file("2", None));
    assert_eq!(
        waiting.refused(canary("2")),
        AdminError::Conflict(
            "sha256:2 waits for an approval, and a canary serves users: approve it first".into()
        )
    );
    waiting.refuses_as(canary("1"), "sha256:1 serves already");
    assert!(matches!(waiting.refused(canary("9")), AdminError::UnknownVersion(_)));
    serving().refuses_as(attempt(TrialKind::Canary, None), "no version is newer");
    for by in [None, Some("policy")] {
        let mut wants_http = version("2", upload(), None);
        wants_http.facts.wants = vec!["http".into(), "key-value".into()];
        let mut component = serving().with(proposed(wants_http));
        if by.is_some() {
            component = component.with(Change::Approve { digest: None, serve: false });
        }
        component.refuses(
            shadow("2"),
            "sha256:2 sends requests, which a shadow would send a second time: try it as a canary",
        );
    }
    let mut tried = approved().with(canary("2"));
    for change in [canary("2"), shadow("2")] {
        assert_eq!(
            tried.refused(change),
            AdminError::Conflict(
                "sha256:2 is being tried already: promote it, or roll back to sha256:1 to end that".into()
            )
        );
    }
    for options in [
        TrialOptions { share: 0.0, ..TrialOptions::default() },
        TrialOptions { share: f64::NAN, ..TrialOptions::default() },
        TrialOptions {
            thresholds: Thresholds { max_error_rate: -1.0, ..Thresholds::default() },
            ..TrialOptions::default()
        },
    ] {
        let request = TrialRequest { digest: Some(digest("2")), options };
        let change = Change::Try { id: "t".into(), kind: TrialKind::Canary, request };
        assert!(matches!(approved().refused(change), AdminError::Invalid(_)));
    }
    serving().refuses(Change::EndTrial, "no version is being tried");
}

#[test]
fn a_promotion_needs_a_trial_or_a_name() {
    let failed = Change::TrialFailed { trial: "t1".into(), because: vec!["it trapped".into()] };
    let component = approved().with(Change::Promote(Some(digest("2"))));
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    approved().refuses(
        Change::Promote(None),
        "no version is being tried. Name the digest of the version that is to serve",
    );
    let mut component = approved().with(canary("2")).with(failed);
    component.refuses(
        Change::Promote(None),
        "the trial of sha256:2 failed: it trapped. Name the digest of the version that is to serve",
    );
    component.refuses_as(Change::Promote(Some(digest("1"))), "sha256:1 serves already");
    let mut component = component.with(Change::Promote(Some(digest("2")))).with(file("3", None));
    let TrialState::Ended { because, .. } = &component.trial().state else { panic!("it is overruled") };
    assert!(because.starts_with("it failed (it trapped)"), "what came of it stays to be read: {because}");
    assert_eq!(
        component.refused(Change::Promote(Some(digest("3")))),
        AdminError::Conflict("sha256:3 waits for an approval: approve it first".into())
    );
    // A shadow of one that waits.
    let mut component = component.with(shadow("3"));
    component.refuses_as(Change::Promote(None), "sha256:3 waits for an approval");
}

#[test]
fn a_verdict_ends_the_trial_that_it_was_of() {
    let mut component = approved().with(canary("2"));
    let because = vec!["it trapped".into()];
    component.makes_no_difference(Change::TrialFailed { trial: "t0".into(), because });
    component.makes_no_difference(Change::TrialPassed { trial: "t0".into() });
    let failed = || Change::TrialFailed { trial: "t1".into(), because: vec!["it trapped".repeat(1_000); 50] };
    let mut component = component.with(failed());
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    let TrialState::Failed { because, .. } = &component.trial().state else { panic!() };
    assert_eq!((because.len(), because.first().unwrap().len()), (8, 400));
    component.makes_no_difference(failed());
    component.makes_no_difference(Change::TrialPassed { trial: "t1".into() });

    let passing = |promote, kind, base: Component| {
        let thresholds = Thresholds { promote, pass_after: 50, ..Thresholds::default() };
        let request = TrialRequest { digest: None, options: TrialOptions { share: 0.5, thresholds } };
        let component = base.with(Change::Try { id: "t1".into(), kind, request });
        component.with(Change::TrialPassed { trial: "t1".into() })
    };
    let component = passing(false, TrialKind::Canary, approved());
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    assert_eq!(component.line(), ("trial passed", Some("sha256:2"), "it serves once it is promoted"));
    assert_eq!(component.with(Change::Promote(None)).serves().0, Some("sha256:2"));
    let component = passing(true, TrialKind::Canary, approved());
    assert_eq!(component.serves(), (Some("sha256:2"), vec!["sha256:1"]));
    assert_eq!(component.trial().state, TrialState::Passed { at: NOW });
    let component = passing(true, TrialKind::Shadow, serving().with(file("2", None)));
    assert_eq!(component.serves(), (Some("sha256:1"), vec![]));
    assert_eq!(component.line().2, "it does not serve, because it waits for an approval");
}

#[test]
fn what_is_needed_is_kept_and_what_is_kept_is_bounded() {
    let mut component = serving();
    component.record.known.extend((0..MOST_KNOWN).map(|index| digest(format!("forgotten-{index}"))));
    for index in 2..30 {
        component = component.with(uploaded(&index.to_string(), Some("off")));
    }
    assert_eq!(component.record.previous.len(), MOST_PREVIOUS);
    assert_eq!(component.record.versions.len(), MOST_VERSIONS);
    assert!(component.line().2.ends_with("; sha256:9 is kept no longer"), "{:?}", component.line());
    // Files that wait push out neither what serves and did, nor what is tried.
    component = component.with(canary("20"));
    for index in 30..60 {
        component = component.with(file(&index.to_string(), None));
    }
    assert!(component.line().2.ends_with("no longer waits, there are newer ones"), "{:?}", component.line());
    assert_eq!(component.record.versions.len(), MOST_VERSIONS);
    let kept = |name: &str| component.record.versions.iter().any(|version| version.digest == digest(name));
    assert!(["29", "28", "27", "26", "25", "24", "20", "59", "50"].into_iter().all(kept));
    assert!(!kept("40") && !kept("21"));
    // What is kept is known, and what was forgotten is the oldest.
    let known = &component.record.known;
    assert_eq!((known.len(), known.first()), (MOST_KNOWN, Some(&digest("59"))));
    assert!(known.contains(&digest("20")) && known.contains(&digest("forgotten-0")));
    assert!(!known.contains(&digest(format!("forgotten-{}", MOST_KNOWN - 1))));
}

#[test]
fn a_record_that_would_be_too_large_drops_entries_and_then_refuses() {
    let large = |name: &str, mebibytes: usize, by| {
        let mut version = version(name, upload(), by);
        version.facts.tools.iter_mut().for_each(|tool| tool.description = "x".repeat(mebibytes << 20));
        proposed(version)
    };
    let component = serving().with(large("2", 2, None)).with(large("3", 1, None)).with(large("4", 1, None));
    let kept: Vec<_> = component.record.versions.iter().map(|version| version.digest.as_str()).collect();
    assert_eq!(kept, ["sha256:4", "sha256:3", "sha256:1"]);
    assert_eq!(component.serves().0, Some("sha256:1"));
    let mut component = component;
    let error = component.refused(large("5", 5, None));
    assert!(matches!(&error, AdminError::Refused(text) if text.contains("smaller schemas")), "{error:?}");
}
