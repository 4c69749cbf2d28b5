//! Where the values of settings come from: the environment of the process, or a map in a test.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hash};

/// A set of environment variables.
pub trait EnvVars {
    /// The value of the variable of that name, whatever bytes it holds.
    fn get(&self, name: &str) -> Option<OsString>;

    /// The names of those that are set. Names that are no text are left out: none of ours is.
    fn names(&self) -> Vec<String>;
}

/// The environment of the process. Nothing else in the project reads it.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnv;

impl EnvVars for ProcessEnv {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
    }
}

impl<K, V, S> EnvVars for HashMap<K, V, S>
where
    K: Borrow<str> + Eq + Hash,
    V: AsRef<OsStr>,
    S: BuildHasher,
{
    fn get(&self, name: &str) -> Option<OsString> {
        HashMap::get(self, name).map(|value| value.as_ref().to_owned())
    }

    fn names(&self) -> Vec<String> {
        self.keys().map(|name| name.borrow().to_owned()).collect()
    }
}

impl<K, V> EnvVars for BTreeMap<K, V>
where
    K: Borrow<str> + Ord,
    V: AsRef<OsStr>,
{
    fn get(&self, name: &str) -> Option<OsString> {
        BTreeMap::get(self, name).map(|value| value.as_ref().to_owned())
    }

    fn names(&self) -> Vec<String> {
        self.keys().map(|name| name.borrow().to_owned()).collect()
    }
}
