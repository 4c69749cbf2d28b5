//! The policy in force, and the file that it comes from.
//!
//! A start that cannot read the policy ends. While serving, a file that is gone, half written or wrong leaves
//! the last good one in force, and [`PolicyStore::fault`] says why for readiness. Whoever watches the file
//! calls [`PolicyStore::reload`]; nothing is watched here. A file should be written aside and renamed into
//! place: one that is truncated where a line ends is a valid policy that grants less.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tool_policy::Policy;
use tool_policy::file::{self, Problems};
use tool_policy::model::{SecretRule, SecretSource};

use arc_swap::ArcSwap;

use super::bounded_file::{self, FileError};

/// The policy in force and the file that it comes from.
#[derive(Debug)]
pub struct PolicyStore {
    path: PathBuf,
    current: ArcSwap<Policy>,
    /// Held while the file is read, which may take long: what was read last is in force.
    reading: Mutex<()>,
    /// Held for a few instructions: readiness asks for the fault while the file is read.
    state: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    absence: Absence,
    fault: Option<Arc<PolicyError>>,
}

/// What it means that there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The operator named the file, or it was there before.
    IsError,
    /// Nobody named it: nothing is granted.
    GrantsNothing,
}

/// Why a file is no policy. It quotes nothing that could be a secret.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("the policy {path:?}: {error}")]
    File { path: String, error: FileError },
    /// As it is while somebody writes over it.
    #[error(
        "the policy {path:?} is empty; write the file aside and rename it into place. A policy that grants nothing holds \
         a comment"
    )]
    Empty { path: String },
    #[error("the policy {path:?} is not valid: {problems}")]
    Invalid { path: String, problems: Problems },
    /// Going on without one would load every component as if no policy said anything of it.
    #[error(
        "no policy can lie beside the tools folder {folder:?}, which has no name to call it by: name its file with \
         TOOLS_POLICY, or another folder with TOOLS_DIR"
    )]
    NoName { folder: String },
}

/// What [`PolicyStore::reload`] did.
#[derive(Debug)]
pub enum Reload {
    /// The file means what is in force.
    Unchanged,
    /// What the file means is in force.
    Swapped { before: Arc<Policy>, after: Arc<Policy> },
    /// The last good one stays in force.
    Kept(Arc<PolicyError>),
}

/// The value of an environment variable, if it is set and text.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFile {
    /// In this file, which must be there.
    At(PathBuf),
    /// In `<folder>.policy.toml`, beside this folder of tools; without such a file nothing is granted. A
    /// folder without a name for it, such as `/`, ends a start.
    Beside(PathBuf),
    /// Nowhere: nothing is granted.
    None,
}

impl PolicyFile {
    /// The environment variables that it reads secrets from. None where it cannot be read, which ends a
    /// start. Blocks.
    pub fn variables(&self) -> BTreeSet<String> {
        let Some(policy) = self.policy() else { return BTreeSet::new() };
        let sources = policy.entries().iter().flat_map(|entry| entry.secrets.values());
        let variable = |rule: &SecretRule| match &rule.source {
            SecretSource::Env(name) => Some(name.clone()),
            SecretSource::File(_) => None,
        };
        sources.filter_map(variable).collect()
    }

    /// The names of its `[[mcp]]` servers. None where it cannot be read, which ends a start. Blocks.
    pub fn mcp_servers(&self) -> BTreeSet<String> {
        let Some(policy) = self.policy() else { return BTreeSet::new() };
        let servers = policy.entries().iter().filter(|entry| entry.mcp.is_some());
        servers.map(|entry| entry.name.clone()).collect()
    }

    /// What the file says now.
    fn policy(&self) -> Option<Arc<Policy>> {
        let (path, absence) = self.location().ok()?;
        PolicyStore::open(path?, absence).ok().map(|store| store.current())
    }

    /// The file, if there is to be one; it may be missing. The error is a text for whoever named the folder.
    /// Blocks.
    pub fn path(&self) -> Result<Option<PathBuf>, String> {
        self.location().map(|(path, _)| path).map_err(|error| error.to_string())
    }

    /// The file, if there is to be one, and what it means that it is not there. Blocks.
    pub fn location(&self) -> Result<(Option<PathBuf>, Absence), PolicyError> {
        Ok(match self {
            Self::At(path) => (Some(path.clone()), Absence::IsError),
            Self::Beside(folder) => (Some(default_path(folder)?), Absence::GrantsNothing),
            Self::None => (None, Absence::GrantsNothing),
        })
    }
}

impl PolicyStore {
    /// Reads the policy. Blocks.
    pub fn open(path: PathBuf, absence: Absence) -> Result<Self, PolicyError> {
        let (policy, absence) = match read(&path) {
            Ok(policy) => (policy, Absence::IsError),
            Err(error) if error.is_absence() && absence == Absence::GrantsNothing => {
                (Policy::empty(), absence)
            }
            Err(error) => return Err(error),
        };
        let state = Mutex::new(Reading { absence, fault: None });
        Ok(Self { path, current: ArcSwap::from_pointee(policy), reading: Mutex::default(), state })
    }

    pub fn current(&self) -> Arc<Policy> {
        self.current.load_full()
    }

    /// Why what is in force is not what the file says.
    pub fn fault(&self) -> Option<Arc<PolicyError>> {
        self.state.lock().fault.clone()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What paths in the policy are relative to.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Reads the file again and puts it in force if it is valid. Blocks; calls wait for one another, so that
    /// what was read last is in force.
    pub fn reload(&self) -> Reload {
        let _one_at_a_time = self.reading.lock();
        let read = read(&self.path);
        let mut state = self.state.lock();
        let policy = match read {
            Ok(policy) => policy,
            Err(error) if error.is_absence() && state.absence == Absence::GrantsNothing => {
                // A wrong file that has come and gone is no fault any more: nothing is granted, as before it.
                state.fault = None;
                return Reload::Unchanged;
            }
            Err(error) => {
                let error = Arc::new(error);
                state.fault = Some(error.clone());
                return Reload::Kept(error);
            }
        };
        *state = Reading { absence: Absence::IsError, fault: None };
        let before = self.current.load_full();
        if before.digest() == policy.digest() {
            return Reload::Unchanged;
        }
        let after = Arc::new(policy);
        self.current.store(after.clone());
        Reload::Swapped { before, after }
    }
}

/// Where the policy of a tools folder is unless something else is said: `<folder>.policy.toml`, beside it.
/// The name is that of the path. A path that ends in none, such as `.` and `..`, is resolved to the folder
/// that it means. Blocks.
fn default_path(tools: &Path) -> Result<PathBuf, PolicyError> {
    let beside = |folder: &Path| {
        let mut name = folder.file_name()?.to_owned();
        name.push(".policy.toml");
        Some(folder.with_file_name(name))
    };
    let resolved = || beside(&tools.canonicalize().ok()?);
    let no_name = || PolicyError::NoName { folder: tools.display().to_string() };
    beside(tools).or_else(resolved).ok_or_else(no_name)
}

impl PolicyError {
    fn is_absence(&self) -> bool {
        matches!(self, Self::File { error, .. } if error.is_absence())
    }
}

fn read(path: &Path) -> Result<Policy, PolicyError> {
    let shown = || path.display().to_string();
    let text = bounded_file::read_text(path, file::MOST_BYTES as u64)
        .map_err(|error| PolicyError::File { path: shown(), error })?;
    if text.is_empty() {
        return Err(PolicyError::Empty { path: shown() });
    }
    file::parse(&text).map_err(|problems| PolicyError::Invalid { path: shown(), problems })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tool_policy::Identity;

    use super::super::testing::{digest, text_with};
    use super::*;

    struct Home {
        folder: tempfile::TempDir,
    }

    impl Home {
        fn new(text: &str) -> Self {
            let home = Self { folder: tempfile::tempdir().unwrap() };
            home.write(text);
            home
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("tools.policy.toml")
        }

        fn write(&self, text: &str) {
            let aside = self.folder.path().join("aside");
            fs::write(&aside, text).unwrap();
            fs::rename(aside, self.path()).unwrap();
        }

        fn open(&self) -> PolicyStore {
            PolicyStore::open(self.path(), Absence::IsError).unwrap()
        }
    }

    #[test]
    fn a_start_ends_when_the_policy_is_gone_or_wrong() {
        let home = Home::new("tool = 1");
        let open = |absence| {
            PolicyStore::open(home.path(), absence).map(|store| store.current().digest().to_owned())
        };
        let text = open(Absence::GrantsNothing).unwrap_err().to_string();
        let path = home.path().display().to_string();
        assert_eq!(
            text,
            format!(
                "the policy {path:?} is not valid: 1 problem in the policy:\n  \
                 line 1, column 1: unknown key \"tool\" in the file; allowed: component, mcp, rollback-on-traps"
            )
        );
        home.write("");
        assert!(
            open(Absence::GrantsNothing).unwrap_err().to_string().contains("is empty; write the file aside")
        );
        fs::remove_file(home.path()).unwrap();
        let gone = open(Absence::IsError).unwrap_err().to_string();
        assert_eq!(
            gone,
            format!("the policy {path:?}: it cannot be read: No such file or directory (os error 2)")
        );
        assert_eq!(open(Absence::GrantsNothing).unwrap(), Policy::empty().digest());
    }

    #[test]
    fn while_serving_the_last_good_policy_stays_and_the_fault_says_why() {
        let home = Home::new(&text_with(""));
        let store = home.open();
        let good = store.current();
        let broken = ["", "[[component", "[[component]]\nname = \"a\"\n"];
        for text in broken {
            home.write(text);
            assert!(matches!(store.reload(), Reload::Kept(_)), "{text:?}");
            assert!(Arc::ptr_eq(&store.current(), &good), "{text:?}");
            let fault = store.fault().unwrap().to_string();
            assert!(fault.starts_with("the policy "), "{fault}");
        }
        fs::remove_file(home.path()).unwrap();
        assert!(matches!(store.reload(), Reload::Kept(_)));
        assert!(store.fault().unwrap().is_absence() && Arc::ptr_eq(&store.current(), &good));
        home.write(&format!("# as it was\n{}", text_with("")));
        assert!(matches!(store.reload(), Reload::Unchanged));
        assert!(store.fault().is_none() && Arc::ptr_eq(&store.current(), &good));
        home.write(&text_with("toolbox = true"));
        let Reload::Swapped { before, after } = store.reload() else { panic!("it is another policy") };
        assert!(Arc::ptr_eq(&before, &good) && Arc::ptr_eq(&after, &store.current()));
        assert!(
            store.current().find(Identity { name: "a", digest: &digest('a'), signer: None }).unwrap().toolbox
        );
    }

    #[test]
    fn a_file_that_nobody_named_may_come_later_but_not_go_again() {
        let home = Home::new("");
        fs::remove_file(home.path()).unwrap();
        let store = PolicyStore::open(home.path(), Absence::GrantsNothing).unwrap();
        assert!(matches!(store.reload(), Reload::Unchanged) && store.fault().is_none());
        home.write("[[component");
        assert!(matches!(store.reload(), Reload::Kept(_)) && store.fault().is_some());
        fs::remove_file(home.path()).unwrap();
        assert!(matches!(store.reload(), Reload::Unchanged) && store.fault().is_none());
        home.write(&text_with(""));
        assert!(matches!(store.reload(), Reload::Swapped { .. }));
        fs::remove_file(home.path()).unwrap();
        assert!(matches!(store.reload(), Reload::Kept(_)));
        assert_eq!(store.current().entries().len(), 1);
        assert_eq!(store.folder(), home.folder.path());
    }

    #[test]
    fn mcp_servers_are_told_from_components() {
        let server = "[[mcp]]\nname = \"wiki\"\nurl = \"https://wiki.example/mcp\"\nallow = [\"search\"]\n";
        let home = Home::new(&(text_with("") + "\n" + server));
        let found = PolicyFile::At(home.path()).mcp_servers();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["wiki"]);
        assert!(PolicyFile::At(home.folder.path().join("none")).mcp_servers().is_empty());
    }

    #[test]
    fn the_default_is_beside_the_folder() {
        let of = |path: &str| default_path(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(of("/srv/tools").unwrap(), "/srv/tools.policy.toml");
        assert_eq!(of("tools/").unwrap(), "tools.policy.toml");
        assert_eq!(of("tools/.").unwrap(), "tools.policy.toml");
        assert_eq!(of("/srv/tools.d").unwrap(), "/srv/tools.d.policy.toml");
    }

    #[test]
    fn a_folder_that_its_path_does_not_name_has_its_policy_beside_it_all_the_same() {
        let home = Home::new(&text_with(""));
        let tools = home.folder.path().join("tools");
        fs::create_dir_all(tools.join("in")).unwrap();
        let policy = PolicyFile::Beside(tools.join("in/..")).policy().unwrap();
        assert_eq!(policy.entries().len(), 1);
        // A test runs in the folder of its crate.
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
        assert_eq!(default_path(Path::new(".")).unwrap(), own.with_file_name("tool-grants.policy.toml"));
        for nameless in ["/", "/..", "/no/such/folder/.."] {
            let refused = PolicyFile::Beside(nameless.into()).path().unwrap_err();
            assert!(refused.contains(nameless) && refused.contains("TOOLS_POLICY"), "{refused}");
        }
    }
}
