//! Writes down what a restart has to know, in the memory of the tools folder (`folder/memory.rs`), and
//! removes the copies of components that nobody needs any more.

use std::collections::{BTreeMap, BTreeSet};

use super::Inventory;
use crate::error::LoadError;
use crate::folder::memory::Remembered;
use crate::load::blocking;

impl Inventory {
    /// Writes down what a restart has to know, if that has changed, and removes the copies that nobody needs
    /// any more. What fails is tried again at the next call, because a restart while the store is away would
    /// serve what was disabled meanwhile. Whatever is being loaded has its last good version in the memory
    /// until it has another one: nobody waits for it.
    pub(crate) async fn remember(&mut self) {
        let Some(memory) = self.memory.clone().filter(|_| self.round > 0) else { return };
        let agrees = !self.folder_decides() && self.agreement.is_some();
        let last_good = self.state.last_good();
        // A restart says again that a file is gone, which may not be written to the store before that.
        let there = self.leaving.iter().chain(&self.in_folder);
        let in_folder: BTreeMap<_, _> = there.map(|(file, digest)| (file.clone(), digest.clone())).collect();
        let files = last_good.keys().chain(in_folder.keys());
        let servers = files.filter(|file| self.missing.is_of_server(file)).cloned().collect();
        let has_agreed = self.remembered.has_agreed || agrees;
        let remembered = Remembered { last_good, in_folder, servers, has_agreed };
        let writes = self.memory_is_behind || remembered != self.remembered;
        let unneeded: BTreeSet<_> =
            self.originals.iter().filter(|digest| !self.needs_original(digest)).cloned().collect();
        let prunes = !unneeded.is_empty() || !self.pruned;
        if !writes && !prunes {
            self.memory_fails = false;
            return;
        }
        self.remembered.clone_from(&remembered);
        // Until the write is known to have gone well. It may fail, and this future may be dropped meanwhile.
        self.memory_is_behind = writes;
        let runtime = self.runtime.clone();
        let written = blocking(move || {
            for version in remembered.last_good.values() {
                runtime.cache.mark_used(&version.digest);
            }
            if writes {
                memory.write(&remembered).map_err(LoadError::Unreadable)?;
            }
            // Only then, because the memory that was there may name these copies.
            let pruned = if prunes { memory.prune(&unneeded) } else { Ok(()) };
            Ok(pruned.map(|()| unneeded).map_err(LoadError::Unreadable))
        });
        let written = written.await;
        self.memory_is_behind = written.is_err();
        let failed_before = std::mem::replace(&mut self.memory_fails, true);
        match written.flatten() {
            Ok(unneeded) => {
                self.originals.retain(|digest| !unneeded.contains(digest));
                (self.pruned, self.memory_fails) = (true, false);
            }
            Err(_) if failed_before => {}
            Err(error) => tracing::warn!(
                %error,
                "the tools that serve cannot be remembered: a restart may choose others; it is tried again"
            ),
        }
    }

    /// Whether the copy of that digest is of a last good version, or of one that may become it: a version in
    /// the folder that is refused for others' sake serves when they are gone.
    fn needs_original(&self, digest: &str) -> bool {
        self.state.files().any(|(_, state)| state.needs(digest))
            || self.file_loads.values().any(|loads| loads.is_loading(digest))
    }
}
