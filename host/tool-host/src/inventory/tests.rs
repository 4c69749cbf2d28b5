//! Tables: what happened to the files, and what serves, is refused and is the last good version then.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::decide::decide;
use super::event::{FileChange, FileEvent};
use super::state::FolderState;
use super::unreadable;
use crate::error::LoadError;
use crate::folder::memory::FileVersion;

/// An event from a line: the file, what happened, and for versions the digest and the tools.
fn event(line: &str) -> FileEvent {
    let words: Vec<_> = line.split(' ').collect();
    let version = || {
        let tools = words[3..].iter().map(|tool| (*tool).to_owned()).collect();
        FileVersion { digest: words[2].into(), tools, prompt_bytes: 30, facts: None }
    };
    let change = match words[1] {
        "remembered" => FileChange::Remembered(version()),
        "proposed" => FileChange::Proposed { round: words[2].parse().unwrap() },
        "loaded" => FileChange::Loaded(version()),
        "refused" => FileChange::Refused(Arc::new(LoadError::Empty)),
        "lost" => FileChange::Lost,
        "removed" => FileChange::Removed,
        other => panic!("{other}"),
    };
    FileEvent::new(words[0], change)
}

/// What serves and what the last good versions are, after events. Settles after each of them, as the driver
/// does.
#[derive(Debug, PartialEq, Eq)]
struct Settled {
    serves: String,
    refused: String,
    last_good: String,
}

fn settled(lines: &[&str]) -> Settled {
    let text = |versions: &BTreeMap<String, FileVersion>| {
        let pairs = versions.iter().map(|(file, version)| format!("{file} {}", version.digest));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let (mut state, mut last) = (FolderState::default(), decide(&FolderState::default(), 1000));
    for line in lines {
        state.apply(event(line));
        last = decide(&state, 1000);
        last.replaced.drain(..).for_each(|event| state.apply(event));
        assert!(decide(&state, 1000).replaced.is_empty(), "{line}: one decision settles it");
    }
    let refused = last.refusals.keys().cloned().collect::<Vec<_>>().join(", ");
    Settled { serves: text(&last.serves), refused, last_good: text(&state.last_good()) }
}

#[track_caller]
fn check(lines: &[&str], serves: &str, refused: &str, last_good: &str) {
    let expected = Settled { serves: serves.into(), refused: refused.into(), last_good: last_good.into() };
    assert_eq!(settled(lines), expected);
}

#[test]
fn of_two_newcomers_the_first_by_name_has_the_tool_whichever_is_loaded_first() {
    let both = ["a proposed 1", "b proposed 1"];
    let (a, b) = ("a loaded a1 x", "b loaded b1 x");
    check(&[&both[..], &[b]].concat(), "b b1", "", "");
    check(&[&both[..], &[b, a]].concat(), "a a1", "b", "a a1");
    check(&[&both[..], &[a, b]].concat(), "a a1", "b", "a a1");
    check(&[&both[..], &[b, "a refused"]].concat(), "b b1", "", "b b1");
}

#[test]
fn who_owned_a_name_before_a_restart_keeps_it() {
    let lines = ["b remembered b1 x", "a proposed 1", "b proposed 1", "a loaded a1 x", "b loaded b1 x"];
    check(&lines, "b b1", "a", "b b1");
    // Until it is loaded nobody else has it either.
    check(&lines[..4], "b b1", "a", "b b1");
}

#[test]
fn a_refused_update_leaves_the_last_good_version_also_over_a_restart() {
    let update = ["a proposed 1", "a loaded a1 x", "a proposed 2", "a refused"];
    check(&update, "a a1", "", "a a1");
    let restart = ["a remembered a1 x", "a proposed 1", "a refused"];
    check(&restart, "a a1", "", "a a1");
    // An update that clashes is refused too.
    check(
        &["a remembered a1 x", "b remembered b1 y", "a proposed 1", "a loaded a2 x y"],
        "a a1, b b1",
        "a",
        "a a1, b b1",
    );
}

#[test]
fn a_last_good_version_that_is_lost_gives_its_names_up() {
    let lines = ["a remembered a1 x", "a proposed 1", "b proposed 1", "b loaded b1 x", "a refused", "a lost"];
    check(&lines[..5], "a a1", "b", "a a1");
    check(&lines, "b b1", "", "b b1");
}

#[test]
fn a_removed_file_is_forgotten_and_its_names_are_free() {
    let lines =
        ["a proposed 1", "b proposed 1", "a loaded a1 x", "b loaded b1 x", "a removed", "a proposed 2"];
    check(&lines[..5], "b b1", "", "b b1");
    check(&[&lines[..], &["a loaded a1 x"]].concat(), "b b1", "a", "b b1");
}

#[test]
fn a_version_that_served_before_can_be_proposed_again() {
    let back =
        ["a proposed 1", "a loaded a1 x", "a proposed 2", "a loaded a2 x y", "a proposed 3", "a loaded a1 x"];
    check(&back[..4], "a a2", "", "a a2");
    check(&back, "a a1", "", "a a1");
    // The name it gave up meanwhile is free again.
    check(&[&back[..], &["b proposed 4", "b loaded b1 y"]].concat(), "a a1, b b1", "", "a a1, b b1");
}

#[test]
fn a_load_that_does_not_end_holds_up_nobody_but_newcomers_of_its_time() {
    let hangs = ["b remembered b1 x", "b proposed 1", "b loaded b1 x", "a proposed 2"];
    // An update that claims nothing new replaces the last good version at once.
    check(&[&hangs[..], &["b proposed 3", "b loaded b2 x"]].concat(), "b b2", "", "b b2");
    // What is new serves at once and is the last good version when the load that was begun before it has
    // ended ...
    let newcomer = [&hangs[..], &["c proposed 3", "c loaded c1 y"]].concat();
    check(&newcomer, "b b1, c c1", "", "b b1");
    check(&[&newcomer[..], &["a refused"]].concat(), "b b1, c c1", "", "b b1, c c1");
    // ... or was begun anew: a file that changes all the time keeps nobody waiting.
    check(&[&newcomer[..], &["a proposed 4"]].concat(), "b b1, c c1", "", "b b1, c c1");
}

#[test]
fn the_end_of_a_load_that_nobody_waits_for_changes_nothing() {
    check(&["a loaded a1 x", "b lost", "c removed", "d refused"], "", "", "");
    check(&["a proposed 1", "a loaded a1 x", "a loaded a2 x"], "a a1", "", "a a1");
}

#[test]
fn what_keeps_the_folder_from_being_read_is_said_as_the_system_says_it() {
    for (code, said) in [
        // The kind of the first two has no name: no more files may be open, and the disk fails.
        (24, "(os error 24)"),
        (5, "(os error 5)"),
        (2, "(os error 2): create it, or set TOOLS_DIR to the one that is meant"),
    ] {
        let text = unreadable(&io::Error::from_raw_os_error(code));
        assert!(text.ends_with(said), "{text}");
    }
}
