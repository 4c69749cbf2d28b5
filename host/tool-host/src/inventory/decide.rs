//! Which version of which file serves: a pure function of the [`FolderState`], with no I/O and no clock.
//!
//! - A tool name has one owner. The file whose last good version has it keeps it; among files without a past
//!   the first by name has it. So the same folder gives the same set on every replica and after every
//!   restart.
//! - The catalog is bounded. What served stays; newcomers and updates are admitted in the order of file
//!   names.
//! - A component serves whole or not at all. A file whose newest version is refused falls back to its last
//!   good one.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::prompt_tokens;

use super::event::{FileChange, FileEvent};
use super::state::{FileState, FolderState};
use crate::error::LoadError;
use crate::folder::memory::FileVersion;

/// Files that an error about the whole catalog names.
const LARGEST: usize = 3;

#[derive(Debug)]
pub(crate) struct Decision {
    /// The version of each file that serves, by file name.
    pub(crate) serves: BTreeMap<String, FileVersion>,
    /// Why a file's newest version does not serve, though it could.
    pub(crate) refusals: BTreeMap<String, LoadError>,
    /// The files whose last good version is another one now.
    pub(crate) replaced: Vec<FileEvent>,
}

/// Decides. The catalog may have `most_tokens`.
pub(crate) fn decide(state: &FolderState, most_tokens: u64) -> Decision {
    let candidates: Vec<_> = state.files().map(|(file, state)| Candidate::of(file, state)).collect();
    let (choices, refusals) = choose(&candidates, most_tokens);
    let (mut serves, mut replaced) = (BTreeMap::new(), Vec::new());
    let mut oldest_load = None;
    for (((file, state), candidate), choice) in state.files().zip(&candidates).zip(choices) {
        oldest_load = oldest_load.into_iter().chain(state.loading).min();
        let chosen = candidate.version(choice);
        serves.extend(chosen.map(|version| (file.clone(), version.clone())));
        if chosen != candidate.last_good && is_certain(state, chosen, oldest_load) {
            replaced.push(FileEvent::new(file, FileChange::Replaced(chosen.cloned())));
        }
    }
    Decision { serves, refusals, replaced }
}

/// Whether a file's last good version becomes `chosen` now. `oldest_load` is the lowest round among the loads
/// under way of this file and of those before it by name.
///
/// A version that claims a new tool name waits for the loads that were proposed with it or before it, because
/// which of two claimants is loaded first must not decide who owns the name. It does not wait for later
/// loads, so that a file which changes again and again holds up nobody. A version that claims no new name
/// does not wait at all.
fn is_certain(state: &FileState, chosen: Option<&FileVersion>, oldest_load: Option<u64>) -> bool {
    let claims_no_new_name = |version: &FileVersion| {
        state.last_good.as_ref().is_some_and(|last_good| version.tools.is_subset(&last_good.tools))
    };
    if chosen.is_some_and(claims_no_new_name) {
        return true;
    }
    let own = chosen.and(state.newest()).map_or(u64::MAX, |newest| newest.round);
    oldest_load.is_none_or(|oldest| oldest > own)
}

/// What could serve of one file.
#[derive(Debug, Clone)]
struct Candidate<'a> {
    /// The file's name.
    file: &'a str,
    /// The newest version, if it can serve.
    newest: Option<&'a FileVersion>,
    /// The last good version, perhaps the same: what it offers it owns.
    last_good: Option<&'a FileVersion>,
}

/// What is to serve of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Newest,
    LastGood,
    Nothing,
}

/// One choice per candidate, in their order, and why a file's newest version was not chosen. `candidates` are
/// sorted by file name.
fn choose(candidates: &[Candidate<'_>], most_tokens: u64) -> (Vec<Choice>, BTreeMap<String, LoadError>) {
    let mut table = Table {
        choices: candidates.iter().map(|candidate| candidate.first_choice()).collect(),
        refusals: BTreeMap::new(),
        candidates,
    };
    // Every round but the last takes something from a file, and no file ever gets anything back.
    while table.settle_names() || table.settle_size(most_tokens) {}
    (table.choices, table.refusals)
}

struct Table<'a> {
    candidates: &'a [Candidate<'a>],
    choices: Vec<Choice>,
    refusals: BTreeMap<String, LoadError>,
}

impl<'a> Candidate<'a> {
    fn of(file: &'a str, state: &'a FileState) -> Self {
        let newest = state.newest().map(|loaded| &loaded.version);
        Self { file, newest, last_good: state.last_good.as_ref() }
    }

    fn first_choice(&self) -> Choice {
        match (self.newest, self.last_good) {
            (Some(_), _) => Choice::Newest,
            (None, Some(_)) => Choice::LastGood,
            (None, None) => Choice::Nothing,
        }
    }

    fn version(&self, choice: Choice) -> Option<&'a FileVersion> {
        match choice {
            Choice::Newest => self.newest,
            Choice::LastGood => self.last_good,
            Choice::Nothing => None,
        }
    }

    /// What is left when `choice` is refused.
    fn next_choice(&self, choice: Choice) -> Choice {
        let other_version = self.last_good.is_some_and(|good| Some(good) != self.newest);
        if choice == Choice::Newest && other_version { Choice::LastGood } else { Choice::Nothing }
    }

    fn owns(&self, tool: &str) -> bool {
        self.last_good.is_some_and(|good| good.tools.contains(tool))
    }

    /// Whether this choice is what served last.
    fn served(&self, choice: Choice) -> bool {
        let version = self.version(choice);
        version.is_some() && version.map(|version| &version.digest) == self.last_good.map(|good| &good.digest)
    }
}

impl<'a> Table<'a> {
    fn chosen(&self) -> impl Iterator<Item = (usize, &'a Candidate<'a>, Choice)> + '_ {
        let pairs = self.candidates.iter().zip(self.choices.iter().copied());
        pairs.enumerate().map(|(index, (candidate, choice))| (index, candidate, choice))
    }

    fn file(&self, index: usize) -> String {
        self.candidates.get(index).map(|candidate| candidate.file.to_owned()).unwrap_or_default()
    }

    /// Takes their choice from files that offer a tool which another has a better claim to. False when there
    /// are none.
    fn settle_names(&mut self) -> bool {
        let mut claims: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, candidate, choice) in self.chosen() {
            for tool in candidate.version(choice).into_iter().flat_map(|version| &version.tools) {
                claims.entry(tool).or_default().push(index);
            }
        }
        let mut losers: BTreeMap<usize, (String, usize)> = BTreeMap::new();
        for (tool, claimants) in claims {
            // The owner, else the first by file name: claimants are in that order.
            let owner =
                claimants.iter().find(|index| self.candidates.get(**index).is_some_and(|one| one.owns(tool)));
            let Some(&winner) = owner.or(claimants.first()) else { continue };
            for loser in claimants.into_iter().filter(|index| *index != winner) {
                losers.entry(loser).or_insert_with(|| (tool.to_owned(), winner));
            }
        }
        // Who loses to somebody who loses too may have lost to nobody. Where all do, in a circle, all lose.
        let beaten: BTreeSet<_> = losers.keys().copied().collect();
        let certain = losers.values().any(|(_, winner)| !beaten.contains(winner));
        losers.retain(|_, (_, winner)| !certain || !beaten.contains(winner));
        let any = !losers.is_empty();
        for (index, (tool, winner)) in losers {
            let other = self.file(winner);
            self.refuse(index, LoadError::Duplicate { tool, other });
        }
        any
    }

    /// Takes its choice from the first file that does not fit into the catalog. False when all do.
    fn settle_size(&mut self, most_tokens: u64) -> bool {
        // What served has its room first, and a file that is updated the room of its last good version.
        let mut bytes = 0;
        let mut newcomers = Vec::new();
        let chosen: Vec<_> = self.chosen().collect();
        for (index, candidate, choice) in chosen {
            let Some(version) = candidate.version(choice) else { continue };
            let before = candidate.last_good.map_or(0, |good| good.prompt_bytes);
            if !candidate.served(choice) {
                newcomers.push((index, version.prompt_bytes, before));
                bytes += before;
                continue;
            }
            bytes += before;
            if prompt_tokens(bytes) > most_tokens {
                let error = self.too_large(index, most_tokens);
                self.refuse(index, error);
                return true;
            }
        }
        for (index, own, before) in newcomers {
            let with = bytes - before + own;
            if prompt_tokens(with) > most_tokens {
                let error = self.too_large(index, most_tokens);
                self.refuse(index, error);
                return true;
            }
            bytes = with;
        }
        false
    }

    fn too_large(&self, refused: usize, most_tokens: u64) -> LoadError {
        let size = |candidate: &Candidate<'_>, choice| {
            candidate.version(choice).map(|version| prompt_tokens(version.prompt_bytes))
        };
        let mut sizes: Vec<_> = self
            .chosen()
            .filter_map(|(index, candidate, choice)| Some((size(candidate, choice)?, index, candidate.file)))
            .collect();
        let own = sizes.iter().find(|(_, index, _)| *index == refused).map_or(0, |(tokens, ..)| *tokens);
        sizes.sort_by(|(a, _, one), (b, _, other)| b.cmp(a).then(one.cmp(other)));
        let largest: Vec<_> =
            sizes.iter().take(LARGEST).map(|(tokens, _, file)| format!("{file} {tokens}")).collect();
        LoadError::CatalogFull { own, most: most_tokens, largest: largest.join(", ") }
    }

    fn refuse(&mut self, index: usize, error: LoadError) {
        let file = self.file(index);
        if let (Some(candidate), Some(choice)) = (self.candidates.get(index), self.choices.get_mut(index)) {
            *choice = candidate.next_choice(*choice);
        }
        // The first reason is the one about what lies in the folder.
        self.refusals.entry(file).or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tools = &'static [&'static str];

    fn version(tools: Tools) -> FileVersion {
        let tools: BTreeSet<_> = tools.iter().map(|tool| (*tool).to_owned()).collect();
        // Two versions with the same tools are the same version.
        FileVersion {
            digest: format!("{tools:?}"),
            prompt_bytes: 30 * tools.len() as u64,
            tools,
            facts: None,
        }
    }

    /// Each row: file, tools of its newest version, tools of its last good one.
    type Row = (&'static str, Option<Tools>, Option<Tools>);

    /// What serves, and who is refused because of what. Every tool has ten tokens.
    fn decided(rows: &[Row], most_tokens: u64) -> (Vec<String>, Vec<String>) {
        let versions: Vec<_> =
            rows.iter().map(|(file, newest, good)| (*file, newest.map(version), good.map(version))).collect();
        let candidates: Vec<_> = versions
            .iter()
            .map(|(file, newest, good)| Candidate { file, newest: newest.as_ref(), last_good: good.as_ref() })
            .collect();
        let (choices, refusals) = choose(&candidates, most_tokens);
        let serves = candidates.iter().zip(&choices).filter_map(|(candidate, choice)| {
            let tools: Vec<_> = candidate.version(*choice)?.tools.iter().cloned().collect();
            Some(format!("{} {}", candidate.file, tools.join(" ")))
        });
        let refusals = refusals.iter().map(|(file, error)| match error {
            LoadError::Duplicate { tool, other } => format!("{file}: {tool} is of {other}"),
            LoadError::CatalogFull { largest, .. } => format!("{file}: full of {largest}"),
            other => panic!("{other}"),
        });
        (serves.collect(), refusals.collect())
    }

    #[test]
    fn of_files_that_clash_who_has_a_name_keeps_it() {
        let table: [(&str, &[Row], &[&str], &[&str]); 7] = [
            (
                "files that do not clash all serve",
                &[("a", Some(&["x", "y"]), None), ("b", Some(&["z"]), Some(&["x"])), ("c", None, None)],
                &["a x y", "b z"],
                &[],
            ),
            (
                "a refused update leaves the last good version",
                &[("a", Some(&["x", "y"]), Some(&["y"])), ("b", Some(&["w", "x"]), Some(&["x"]))],
                &["a y", "b w x"],
                &["a: x is of b"],
            ),
            (
                "a file that cannot be loaded has its names",
                &[("a", None, Some(&["x"])), ("b", Some(&["x"]), None)],
                &["a x"],
                &["b: x is of a"],
            ),
            (
                "a name that its owner gives up is free",
                &[("a", Some(&["new"]), Some(&["old"])), ("b", Some(&["old"]), None)],
                &["a new", "b old"],
                &[],
            ),
            (
                "a's update claims what c owns, so a falls back to what b's update wants",
                &[
                    ("a", Some(&["theirs"]), Some(&["old"])),
                    ("b", Some(&["old"]), Some(&["x"])),
                    ("c", Some(&["theirs"]), Some(&["theirs"])),
                ],
                &["a old", "b x", "c theirs"],
                &["a: theirs is of c", "b: old is of a"],
            ),
            (
                "who is beaten beats nobody",
                &[("a", Some(&["x"]), None), ("b", Some(&["x", "y"]), None), ("c", Some(&["y"]), None)],
                &["a x", "c y"],
                &["b: x is of a"],
            ),
            (
                "updates that want each other's tools are all refused",
                &[("a", Some(&["x", "y"]), Some(&["x"])), ("b", Some(&["x", "y"]), Some(&["y"]))],
                &["a x", "b y"],
                &["a: y is of b", "b: x is of a"],
            ),
        ];
        for (rule, rows, serves, refused) in table {
            let (actual, refusals) = decided(rows, 1000);
            assert_eq!(actual, serves, "{rule}");
            assert_eq!(refusals, refused, "{rule}");
        }
    }

    #[test]
    fn newcomers_are_admitted_by_file_name_as_long_as_there_is_room() {
        let rows: &[Row] =
            &[("a", Some(&["p", "q"]), None), ("b", Some(&["r", "s"]), None), ("c", Some(&["t"]), None)];
        assert_eq!(decided(rows, 50).1, [""; 0]);
        let (serves, refused) = decided(rows, 30);
        assert_eq!(serves, ["a p q", "c t"]);
        assert_eq!(refused, ["b: full of a 20, b 20, c 10"]);
    }

    #[test]
    fn what_served_is_not_pushed_out_and_an_update_that_does_not_fit_leaves_the_last_good_version() {
        let rows: &[Row] = &[
            ("a", Some(&["new"]), None),
            ("b", Some(&["r", "s"]), Some(&["r"])),
            ("c", Some(&["t", "u"]), Some(&["t", "u"])),
        ];
        assert_eq!(decided(rows, 30).0, ["b r", "c t u"]);
        assert_eq!(decided(rows, 40).0, ["a new", "b r", "c t u"]);
        assert_eq!(decided(rows, 50).0, ["a new", "b r s", "c t u"]);
        // The limit was lowered since: who has no room any more leaves it to newcomers that have.
        assert_eq!(decided(rows, 20).0, ["a new", "b r"]);
    }

    #[test]
    fn an_update_that_does_not_fit_takes_its_tools_back_from_who_wanted_them() {
        let rows: &[Row] = &[("a", Some(&["p", "q", "r"]), Some(&["old"])), ("b", Some(&["old"]), None)];
        let (serves, refused) = decided(rows, 20);
        assert_eq!(serves, ["a old"]);
        assert_eq!(refused, ["a: full of a 30, b 10", "b: old is of a"]);
    }
}
