//! Rollbacks by operators and by the host, and files that are older than the version that serves.

use super::component::{Component, approve, canary, found, replaced, serving, uploaded};
use super::{NOW, digest};
use crate::record::Change;

#[test]
fn a_version_that_was_rolled_back_is_not_what_the_next_rollback_brings() {
    let component = replaced().with(Change::Rollback(None));
    assert_eq!(component.serves(), (Some("sha256:1"), vec!["sha256:2"]));
    assert_eq!(component.line(), ("rolled back", Some("sha256:1"), "it serves in place of sha256:2"));
    let mut component = component;
    component.refuses(
        Change::Rollback(None),
        "no other version served before. There is sha256:2 (withdrawn), sha256:1 (serves)",
    );
    // Another one that served before is gone back to, past the one that was withdrawn.
    let mut component = component.with(uploaded("3", Some("off"))).with(uploaded("4", Some("off")));
    for serves in ["sha256:3", "sha256:1"] {
        component = component.with(Change::Rollback(None));
        assert_eq!(component.serves().0, Some(serves));
    }
    component.refused(Change::Rollback(None));
    // A rollback that names one of them undoes that, and can itself be undone.
    let component = component.with(Change::Rollback(Some(digest("2")))).with(Change::Rollback(None));
    assert_eq!(component.serves(), (Some("sha256:1"), vec!["sha256:2", "sha256:3", "sha256:4"]));
    // Promoted, it is what a rollback goes back to again.
    let component = component.with(Change::Promote(Some(digest("2")))).with(uploaded("5", Some("off")));
    assert_eq!(component.with(Change::Rollback(None)).serves().0, Some("sha256:2"));
}

#[test]
fn a_version_whose_calls_trap_makes_room_for_the_one_before_it() {
    let trapped = |name: &str, since| Change::Trapped {
        digest: digest(name),
        since,
        because: "5 of 6 calls trapped".into(),
    };
    let mut component = replaced();
    // The counts are of an earlier time, or of another version.
    component.makes_no_difference(trapped("2", NOW - 1));
    component.makes_no_difference(trapped("1", NOW));
    let mut component = component
        .with(uploaded("3", None))
        .with(Change::Approve { digest: None, serve: false })
        .with(canary("3"))
        .with(trapped("2", NOW));
    assert_eq!(component.serves(), (Some("sha256:1"), vec!["sha256:2"]));
    assert_eq!(
        component.line(),
        (
            "withdrawn",
            Some("sha256:2"),
            "5 of 6 calls trapped; it serves in place of sha256:2; the trial of sha256:3 ended"
        )
    );
    // Nothing is kept that it could make room for: a rollback does not bring the trapping version back
    // either.
    component.makes_no_difference(trapped("1", NOW));
    component.refused(Change::Rollback(None));
    serving().makes_no_difference(trapped("1", NOW));
}

#[test]
fn a_file_that_was_found_before_the_version_that_serves_does_not_take_its_place() {
    // Found in an empty inventory, and loaded while another version was installed.
    let component = Component::default().with(uploaded("2", Some("off"))).with(found("1", &[]));
    assert_eq!(component.serves(), (Some("sha256:2"), vec![]));
    let kept: Vec<_> = component.record.versions.iter().map(|version| version.digest.as_str()).collect();
    assert_eq!(
        (kept, component.record.known.as_slice()),
        (vec!["sha256:2", "sha256:1"], &[digest("2"), digest("1")][..])
    );
    // The version that came meanwhile waits: the file serves until that is approved, and is no newer than it.
    let waiting = Component::default().with(uploaded("2", None)).with(found("1", &[]));
    assert_eq!(waiting.serves().0, Some("sha256:1"));
    assert_eq!(waiting.with(approve(None)).serves().0, Some("sha256:2"));
    // Nothing came meanwhile.
    let component = component.with(found("3", &["2", "1"]));
    assert_eq!(component.serves(), (Some("sha256:3"), vec!["sha256:2"]));
}
