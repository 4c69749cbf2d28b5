//! What the events of the tools folder add up to: for each file the version that is being loaded, the newest
//! one, and the last good one. No I/O and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{FileChange, FileEvent};
use crate::error::LoadError;
use crate::folder::memory::FileVersion;

/// The files, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderState {
    files: BTreeMap<String, FileState>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FileState {
    /// The round of the proposal that is being loaded.
    pub(crate) loading: Option<u64>,
    /// The newest version that was loaded, or why it cannot serve. Nothing before the first was.
    pub(crate) newest: Option<Result<Loaded, Arc<LoadError>>>,
    /// The last good version: it owns its tool names.
    pub(crate) last_good: Option<FileVersion>,
}

/// A version that can serve.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) version: FileVersion,
    pub(crate) round: u64,
}

impl FolderState {
    /// Takes an event in. What cannot follow what happened before is ignored, such as the end of a load that
    /// was given up.
    pub(crate) fn apply(&mut self, event: FileEvent) {
        let FileEvent { file, change } = event;
        match change {
            FileChange::Remembered(version) => self.entry(file).last_good = Some(version),
            FileChange::Proposed { round } => self.entry(file).loading = Some(round),
            FileChange::Loaded(version) => {
                self.finish(&file, |round| Ok(Loaded { version, round }));
            }
            FileChange::Refused(error) => self.finish(&file, |_round| Err(error)),
            FileChange::Lost => self.set_last_good(&file, None),
            FileChange::Replaced(version) => self.set_last_good(&file, version),
            FileChange::Removed => {
                self.files.remove(&file);
            }
        }
    }

    /// The files and what is known of each, by name.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &FileState)> {
        self.files.iter()
    }

    pub(crate) fn get(&self, file: &str) -> Option<&FileState> {
        self.files.get(file)
    }

    /// The last good version of each file, by file name: what a restart has to know.
    pub(crate) fn last_good(&self) -> BTreeMap<String, FileVersion> {
        let good = self.files.iter().filter_map(|(file, state)| Some((file, state.last_good.as_ref()?)));
        good.map(|(file, version)| (file.clone(), version.clone())).collect()
    }

    fn entry(&mut self, file: String) -> &mut FileState {
        self.files.entry(file).or_default()
    }

    fn finish(&mut self, file: &str, end: impl FnOnce(u64) -> Result<Loaded, Arc<LoadError>>) {
        if let Some(state) = self.files.get_mut(file)
            && let Some(round) = state.loading.take()
        {
            state.newest = Some(end(round));
        }
    }

    fn set_last_good(&mut self, file: &str, version: Option<FileVersion>) {
        if let Some(state) = self.files.get_mut(file) {
            state.last_good = version;
        }
    }
}

impl FileState {
    /// The newest version, if it can serve.
    pub(crate) fn newest(&self) -> Option<&Loaded> {
        self.newest.as_ref()?.as_ref().ok()
    }

    /// Why the newest version cannot serve.
    pub(crate) fn error(&self) -> Option<&Arc<LoadError>> {
        self.newest.as_ref()?.as_ref().err()
    }

    /// Whether that digest is of a version which may be needed.
    pub(crate) fn needs(&self, digest: &str) -> bool {
        let newest = self.newest().map(|loaded| &loaded.version);
        newest.into_iter().chain(&self.last_good).any(|version| version.digest == digest)
    }
}
