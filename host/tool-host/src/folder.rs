//! The tools folder: which files are in it, which of them are loaded, and what keeps the others from it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::ports::ToolFault;

use crate::component::{self, Component, MOST_BYTES};
use crate::error::LoadError;
use crate::runtime::Runtime;

/// Tells one content of a file from the next without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// What is known of one file.
#[derive(Default)]
struct Tracked {
    seen: Option<Fingerprint>,
    /// What the file held when it was last read.
    newest: Option<Result<Arc<Component>, Arc<LoadError>>>,
    /// What of it serves now.
    running: Option<Arc<Component>>,
}

/// What a scan found.
pub(crate) struct Scan {
    /// The components that are to serve, by file name.
    pub(crate) components: Vec<Arc<Component>>,
    /// The files that cannot serve as they are.
    pub(crate) faults: Vec<ToolFault>,
}

/// The tools folder.
pub(crate) struct Folder {
    path: PathBuf,
    files: BTreeMap<String, Tracked>,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, files: BTreeMap::new() }
    }

    /// Reads what has changed since the last scan and settles what is to serve.
    pub(crate) async fn scan(&mut self, runtime: &Arc<Runtime>) -> Scan {
        let path = self.path.clone();
        let listed = tokio::task::spawn_blocking(move || list(&path)).await.map_err(io::Error::other);
        let found = match listed.and_then(|listed| listed) {
            Ok(found) => found,
            Err(error) => return self.unreadable(&error),
        };
        self.files.retain(|file, _| found.contains_key(file));
        for (file, fingerprint) in found {
            let tracked = self.files.entry(file.clone()).or_default();
            if fingerprint.is_none() || tracked.seen != fingerprint {
                let newest = read_and_load(runtime, &self.path, &file, tracked).await;
                // A file that could not be read may be readable the next time, though it did not change.
                let settled = !matches!(newest, Err(LoadError::Unreadable(_)));
                tracked.seen = fingerprint.filter(|_| settled);
                tracked.newest = Some(newest.map_err(Arc::new));
            }
        }
        self.settle()
    }

    /// Nothing can be said about the files, so what serves goes on serving.
    fn unreadable(&self, error: &io::Error) -> Scan {
        tracing::debug!(folder = %self.path.display(), %error, "the tools folder cannot be read");
        // Without the path: the text stands in the readiness report, which anyone may read.
        let todo = if error.kind() == NotFound {
            ": create it, or set TOOLS_DIR to the one that is meant"
        } else {
            ""
        };
        let error = format!("the tools folder (TOOLS_DIR) cannot be read: {}{todo}", error.kind());
        Scan {
            components: self.files.values().filter_map(|tracked| tracked.running.clone()).collect(),
            faults: vec![ToolFault { file: ".".into(), error }],
        }
    }

    /// Decides what is to serve: of each file its newest content if that can serve, else what ran of it.
    fn settle(&mut self) -> Scan {
        let mut faults = BTreeMap::new();
        let mut entries = Vec::new();
        for (file, tracked) in &self.files {
            let newest = match &tracked.newest {
                Some(Ok(component)) => Some(component.clone()),
                Some(Err(error)) => {
                    faults.insert(file.clone(), error.to_string());
                    None
                }
                None => None,
            };
            let running = tracked.running.clone();
            entries.push(Entry { file, newest, running });
        }
        let settled = resolve_clashes(entries, |component| {
            component.tools.iter().map(|tool| tool.spec.name.as_str()).collect()
        });
        let chosen: Vec<_> =
            settled.chosen.into_iter().map(|(file, component)| (file.to_owned(), component)).collect();
        faults.extend(settled.clashes.into_iter().map(|(file, error)| (file, error.to_string())));

        let mut components = Vec::new();
        for (file, component) in chosen {
            if let Some(tracked) = self.files.get_mut(&file) {
                tracked.running.clone_from(&component);
            }
            components.extend(component);
        }
        let faults = faults.into_iter().map(|(file, error)| ToolFault { file, error }).collect();
        Scan { components, faults }
    }
}

/// Lists the tool files of a folder: `*.wasm`, not hidden, links followed. What is there but cannot be looked at
/// is listed too, because only what is gone may stop serving.
fn list(folder: &Path) -> io::Result<BTreeMap<String, Option<Fingerprint>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with('.') || !name.ends_with(".wasm") {
            continue;
        }
        let fingerprint = match fs::metadata(entry.path()) {
            Ok(metadata) => Some(Fingerprint::of(&metadata)),
            Err(_) if entry.path().symlink_metadata().is_err_and(|error| error.kind() == NotFound) => {
                continue;
            }
            Err(_) => None,
        };
        found.insert(name.to_owned(), fingerprint);
    }
    Ok(found)
}

/// Reads a file that may have been swapped for anything since it was looked at: a pipe must not hold us up and
/// an endless file must not fill the memory.
fn read_bounded(path: &Path) -> Result<Vec<u8>, LoadError> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(LoadError::Unreadable)?;
    if !file.metadata().map_err(LoadError::Unreadable)?.is_file() {
        return Err(LoadError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(LoadError::Unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(LoadError::TooLarge { most: MOST_BYTES });
    }
    Ok(bytes)
}

impl Fingerprint {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

async fn read_and_load(
    runtime: &Arc<Runtime>,
    folder: &Path,
    file: &str,
    tracked: &Tracked,
) -> Result<Arc<Component>, LoadError> {
    let name = component_name(file).ok_or(LoadError::BadFileName)?;
    let path = folder.join(file);
    let read = tokio::task::spawn_blocking(move || {
        let bytes = read_bounded(&path)?;
        let digest = component::digest(&bytes);
        Ok((bytes, digest))
    });
    let read = read.await.map_err(|error| LoadError::Unreadable(io::Error::other(error)));
    let (bytes, digest) = read.and_then(|read| read)?;
    if let Some(running) = tracked.running.as_ref().filter(|running| running.digest == digest) {
        return Ok(running.clone());
    }
    component::load(runtime.clone(), name, bytes, digest).await.map(Arc::new)
}

/// The component's name: it stands in receipts, labels and log lines.
fn component_name(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".wasm")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    ((1..=64).contains(&name.len()) && name.bytes().all(plain)).then_some(name)
}

/// What could serve of one file.
struct Entry<'a, C> {
    file: &'a str,
    newest: Option<C>,
    running: Option<C>,
}

/// Who serves, and who may not because of whom.
struct Settled<'a, C> {
    chosen: Vec<(&'a str, Option<C>)>,
    clashes: Vec<(String, LoadError)>,
}

/// Chooses for each file what is to serve of it, so that no two files offer a tool of the same name.
///
/// Who has a name keeps it: another file's new content that claims it is refused. Of two newcomers that claim
/// a free name neither is taken, because either choice would let a file's name decide whose code is called.
fn resolve_clashes<'a, C: Clone>(
    entries: Vec<Entry<'a, C>>,
    tools: impl Fn(&C) -> Vec<&str>,
) -> Settled<'a, C> {
    let mut clashes = Vec::new();
    let mut chosen: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let new = entry.newest.is_some();
            (entry.file, entry.newest.or_else(|| entry.running.clone()), entry.running, new)
        })
        .collect();
    loop {
        let mut claims: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, (_, choice, ..)) in chosen.iter().enumerate() {
            for tool in choice.as_ref().map(&tools).unwrap_or_default() {
                claims.entry(tool.to_owned()).or_default().push(index);
            }
        }
        let mut refused: BTreeMap<usize, (String, usize)> = BTreeMap::new();
        for (tool, claimants) in claims {
            for (&index, &other) in claimants.iter().zip(claimants.iter().cycle().skip(1)) {
                let is_newcomer = chosen.get(index).is_some_and(|(_, _, running, new)| {
                    *new && !running.as_ref().is_some_and(|running| tools(running).contains(&tool.as_str()))
                });
                if claimants.len() > 1 && is_newcomer {
                    refused.entry(index).or_insert((tool.clone(), other));
                }
            }
        }
        if refused.is_empty() {
            let chosen = chosen.into_iter().map(|(file, choice, ..)| (file, choice)).collect();
            return Settled { chosen, clashes };
        }
        for (index, (tool, other)) in refused {
            let other = chosen.get(other).map(|(file, ..)| (*file).to_owned()).unwrap_or_default();
            if let Some((file, choice, running, new)) = chosen.get_mut(index) {
                clashes.push(((*file).to_owned(), LoadError::Duplicate { tool, other }));
                choice.clone_from(running);
                *new = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tools = &'static [&'static str];

    /// Each entry: file, tools of its newest content, tools of what runs of it.
    fn check(entries: &[(&str, Option<Tools>, Option<Tools>)], serves: &[(&str, Tools)], refused: &[&str]) {
        let entries = entries
            .iter()
            .map(|(file, newest, running)| Entry { file, newest: *newest, running: *running })
            .collect();
        let Settled { chosen, clashes } = resolve_clashes(entries, |tools: &Tools| tools.to_vec());
        let chosen: Vec<_> = chosen.into_iter().filter_map(|(file, tools)| Some((file, tools?))).collect();
        assert_eq!(chosen, serves);
        let refusals: Vec<_> = clashes.iter().map(|(file, error)| format!("{file} {error}")).collect();
        assert_eq!(refusals, refused);
    }

    #[test]
    fn files_that_do_not_clash_all_serve() {
        check(
            &[("a", Some(&["x", "y"]), None), ("b", Some(&["z"]), Some(&["x"]))],
            &[("a", &["x", "y"]), ("b", &["z"])],
            &[],
        );
    }

    #[test]
    fn of_two_newcomers_with_one_name_neither_serves_and_each_names_the_other() {
        check(
            &[("a", Some(&["x"]), None), ("b", Some(&["x"]), None), ("c", Some(&["y"]), None)],
            &[("c", &["y"])],
            &[
                r#"a offers the tool "x", and so does b: rename the tool in one of the two or remove one"#,
                r#"b offers the tool "x", and so does a: rename the tool in one of the two or remove one"#,
            ],
        );
    }

    #[test]
    fn who_has_a_name_keeps_it_and_a_refused_update_leaves_the_old_version_running() {
        check(
            &[("a", Some(&["x", "w"]), Some(&["x"])), ("b", Some(&["x", "y"]), Some(&["y"]))],
            &[("a", &["x", "w"]), ("b", &["y"])],
            &[r#"b offers the tool "x", and so does a: rename the tool in one of the two or remove one"#],
        );
    }

    #[test]
    fn a_version_that_is_taken_back_up_keeps_its_names_too() {
        // b's update clashes with c's, so b falls back to what ran of it, and that is what a's update wanted.
        check(
            &[
                ("a", Some(&["old"]), Some(&["x"])),
                ("b", Some(&["new"]), Some(&["old"])),
                ("c", Some(&["new"]), None),
            ],
            &[("a", &["x"]), ("b", &["old"])],
            &[
                r#"b offers the tool "new", and so does c: rename the tool in one of the two or remove one"#,
                r#"c offers the tool "new", and so does b: rename the tool in one of the two or remove one"#,
                r#"a offers the tool "old", and so does b: rename the tool in one of the two or remove one"#,
            ],
        );
    }

    #[test]
    fn names_become_names_of_components_only_when_plain() {
        assert_eq!(component_name("text-stats.wasm"), Some("text-stats"));
        for bad in [".wasm", "a b.wasm", "a/b.wasm", "a\n.wasm", "é.wasm", "a.txt"] {
            assert_eq!(component_name(bad), None, "{bad:?}");
        }
    }
}
