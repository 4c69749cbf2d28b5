//! Which files of the target folder this command wrote, so that it can remove what no crate makes any more
//! and touches nothing that somebody else put there.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// Where shipped components go, in the target folder.
pub(crate) const SHIPPED: &str = "tools";
/// Where the components go that misbehave on purpose: apart, so that no host serves them by accident.
pub(super) const MISBEHAVING: &str = "tools-misbehaving";
/// Where the components go that nobody serves before the operator's policy names them.
pub(crate) const GRANTED: &str = "tools-granted";
/// All of them.
pub(super) const FOLDERS: [&str; 3] = [SHIPPED, MISBEHAVING, GRANTED];

/// The list, in the form of `sha256sum`, which can check it.
const FILE: &str = "guests.sha256";

/// What was written, by path within the target folder.
#[derive(Default)]
pub(super) struct Ledger {
    digests: BTreeMap<String, String>,
}

/// What became of a file that no crate makes any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The file was as it had been written, and is removed.
    Removed(String),
    /// Somebody changed it since, so it stays.
    Changed(String),
}

impl Ledger {
    /// Reads what the last build wrote. A list that is not there or cannot be understood names nothing.
    pub(super) fn read(target: &Path) -> Self {
        let text = fs::read_to_string(target.join(FILE)).unwrap_or_default();
        let entry = |line: &str| {
            let (digest, path) = line.split_once("  ")?;
            // Whatever the list says, only components in the folders of this command are ever removed.
            let (folder, file) = path.split_once('/')?;
            let is_ours = FOLDERS.contains(&folder) && file.ends_with(".wasm") && !file.contains('/');
            is_ours.then(|| (path.to_owned(), digest.to_owned()))
        };
        Self { digests: text.lines().filter_map(entry).collect() }
    }

    /// Notes a file.
    pub(super) fn add(&mut self, path: String, content: &[u8]) {
        self.digests.insert(path, digest(content));
    }

    /// Whether a path is in it.
    pub(super) fn has(&self, path: &str) -> bool {
        self.digests.contains_key(path)
    }

    /// Removes the files of an `earlier` build that this one did not write, and puts this list in its place.
    pub(super) fn replace(&self, earlier: &Self, target: &Path) -> anyhow::Result<Vec<Gone>> {
        let mut gone = Vec::new();
        for (path, written) in earlier.digests.iter().filter(|(path, _)| !self.has(path)) {
            let file: PathBuf = target.join(path);
            match fs::read(&file) {
                Ok(content) if digest(&content) == *written => {
                    fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
                    gone.push(Gone::Removed(path.clone()));
                }
                Ok(_) => gone.push(Gone::Changed(path.clone())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
            }
        }
        self.write(target)?;
        Ok(gone)
    }

    /// Adds this list to the one that is there: what an `earlier` build wrote of other tools stays listed.
    pub(super) fn extend(mut self, target: &Path) -> anyhow::Result<()> {
        let earlier = Self::read(target);
        for (path, digest) in earlier.digests {
            self.digests.entry(path).or_insert(digest);
        }
        self.write(target)
    }

    fn write(&self, target: &Path) -> anyhow::Result<()> {
        let lines = self.digests.iter().map(|(path, digest)| format!("{digest}  {path}\n"));
        let file = target.join(FILE);
        fs::write(&file, lines.collect::<String>()).with_context(|| format!("writing {}", file.display()))
    }
}

fn digest(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(target: &Path, files: &[(&str, &[u8])]) -> Vec<Gone> {
        let earlier = Ledger::read(target);
        let mut ledger = Ledger::default();
        for (path, content) in files {
            let file = target.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
            ledger.add((*path).to_owned(), content);
        }
        ledger.replace(&earlier, target).unwrap()
    }

    #[test]
    fn what_no_crate_makes_any_more_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path();
        assert_eq!(build(target, &[("tools/a.wasm", b"a"), ("tools/b.wasm", b"b")]), []);
        fs::write(target.join("tools/foreign.wasm"), "somebody's").unwrap();
        let renamed = build(target, &[("tools/a.wasm", b"a2"), ("tools/c.wasm", b"b")]);
        assert_eq!(renamed, [Gone::Removed("tools/b.wasm".to_owned())]);
        let mut left: Vec<_> =
            fs::read_dir(target.join("tools")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.wasm", "c.wasm", "foreign.wasm"]);
    }

    #[test]
    fn a_build_of_some_tools_leaves_the_others_listed() {
        let home = tempfile::tempdir().unwrap();
        build(home.path(), &[("tools/a.wasm", b"a"), ("tools-granted/b.wasm", b"b")]);
        let mut some = Ledger::default();
        some.add("tools/a.wasm".to_owned(), b"a2");
        some.extend(home.path()).unwrap();
        let listed = Ledger::read(home.path());
        assert_eq!(listed.digests["tools/a.wasm"], digest(b"a2"));
        assert_eq!(listed.digests["tools-granted/b.wasm"], digest(b"b"));
    }

    #[test]
    fn a_file_that_was_changed_since_it_was_written_stays() {
        let home = tempfile::tempdir().unwrap();
        build(home.path(), &[("tools/a.wasm", b"a")]);
        fs::write(home.path().join("tools/a.wasm"), "mine").unwrap();
        assert_eq!(build(home.path(), &[]), [Gone::Changed("tools/a.wasm".to_owned())]);
        assert_eq!(fs::read(home.path().join("tools/a.wasm")).unwrap(), b"mine");
    }

    #[test]
    fn a_list_cannot_name_files_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("precious.wasm"), "p").unwrap();
        let digest = digest(b"p");
        let list = format!(
            "{digest}  precious.wasm\n{digest}  tools/../precious.wasm\n{digest}  ../x.wasm\n\u{0}\n"
        );
        fs::write(home.path().join(FILE), list).unwrap();
        assert_eq!(build(home.path(), &[]), []);
        assert!(home.path().join("precious.wasm").exists());
    }
}
