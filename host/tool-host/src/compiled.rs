//! Compiled components on disk, so that a second start loads instead of compiling.
//!
//! Compiled code is run as it is found, so whoever can write it owns the host. The folder must therefore be
//! ours alone, and every file carries the digest of its content: a torn or damaged file is compiled anew.
//! This is the one place of the project where `unsafe` is needed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Bytes of the digest in front of the compiled code.
const DIGEST_BYTES: usize = 32;

/// Files that are kept; beyond them the oldest go.
const MOST_FILES: usize = 256;

/// A folder of compiled components, keyed by component digest and engine.
#[derive(Debug)]
pub(crate) struct CompiledCache {
    /// Nothing when there is no folder, or none that is safe to use.
    folder: Option<PathBuf>,
    fingerprint: u64,
    compiled: AtomicU64,
    loaded: AtomicU64,
}

impl CompiledCache {
    /// Uses `folder`, made if absent. One that cannot be used is said in the log and done without.
    pub(crate) fn open(folder: Option<PathBuf>, fingerprint: u64) -> Self {
        let folder = folder.filter(|folder| match make_private(folder) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(
                    folder = %folder.display(), %error,
                    "no compile cache: every start compiles all tools; set TOOLS_CACHE_DIR to a folder that only this user can write"
                );
                false
            }
        });
        if let Some(folder) = &folder
            && let Err(error) = prune(folder, MOST_FILES)
        {
            tracing::warn!(folder = %folder.display(), %error, "the compile cache could not be pruned");
        }
        Self { folder, fingerprint, compiled: AtomicU64::new(0), loaded: AtomicU64::new(0) }
    }

    /// The component of these bytes, compiled now or earlier.
    pub(crate) fn component(
        &self,
        engine: &Engine,
        bytes: &[u8],
        digest: &str,
    ) -> wasmtime::Result<Component> {
        let path = self.folder.as_ref().map(|folder| {
            folder.join(format!("{}-{:016x}.cwasm", digest.replace(':', "-"), self.fingerprint))
        });
        if let Some(code) = path.as_deref().and_then(read_intact)
            && let Some(component) = load(engine, &code)
        {
            self.loaded.fetch_add(1, Ordering::Relaxed);
            path.as_deref().map(mark_used);
            return Ok(component);
        }
        let component = Component::new(engine, bytes)?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if let Some(path) = path
            && let Err(error) =
                component.serialize().map_err(io::Error::other).and_then(|code| write(&path, &code))
        {
            tracing::warn!(file = %path.display(), %error, "a compiled tool could not be kept; the next start compiles it again");
        }
        Ok(component)
    }

    /// How many components were compiled, and how many were found compiled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.compiled.load(Ordering::Relaxed), self.loaded.load(Ordering::Relaxed))
    }
}

#[expect(unsafe_code, reason = "wasmtime cannot check that compiled code is what its compiler wrote")]
fn load(engine: &Engine, code: &[u8]) -> Option<Component> {
    // SAFETY: the bytes were written by `write` below in a folder that only this user can write, their digest
    // matches, and the file's name holds the engine's fingerprint; wasmtime checks its own version once more.
    let loaded = unsafe { Component::deserialize(engine, code) };
    loaded
        .inspect_err(|error| {
            tracing::debug!(error = format!("{error:#}"), "compiled code is not for this engine")
        })
        .ok()
}

/// The code in a file, if the file is whole.
fn read_intact(path: &Path) -> Option<Vec<u8>> {
    let mut content = fs::read(path).ok()?;
    let code = (content.len() >= DIGEST_BYTES).then(|| content.split_off(DIGEST_BYTES))?;
    if Sha256::digest(&code).as_slice() == content {
        return Some(code);
    }
    tracing::warn!(file = %path.display(), "a compiled tool is damaged and is compiled again");
    None
}

/// The oldest files are pruned first; this one is in use.
fn mark_used(path: &Path) {
    // silent-ok: a cache that can be read but not written is as good as before.
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Writes aside and renames, so that no reader ever sees half a file.
fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut aside = NamedTempFile::new_in(folder)?;
    aside.write_all(&Sha256::digest(code))?;
    aside.write_all(code)?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    Ok(())
}

/// Makes the folder if need be, and refuses one that others can write.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::metadata(folder)?;
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(io::Error::other(format!("it belongs to user {}, not to {us}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write it"));
    }
    // Finds out now, and once, that the folder is read-only.
    NamedTempFile::new_in(folder).map(drop)
}

fn prune(folder: &Path, most: usize) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cwasm") {
            let modified = fs::metadata(&path)?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((modified, path));
        }
    }
    files.sort_unstable();
    let surplus = files.len().saturating_sub(most);
    files.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const COMPONENT: &str = "(component)";

    fn open(folder: &Path) -> CompiledCache {
        CompiledCache::open(Some(folder.to_owned()), 7)
    }

    fn get(cache: &CompiledCache) {
        cache.component(&Engine::default(), &wat::parse_str(COMPONENT).unwrap(), "sha256:1").unwrap();
    }

    #[test]
    fn a_second_start_compiles_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("made/if/absent");
        let first = open(&folder);
        get(&first);
        let second = open(&folder);
        get(&second);
        assert_eq!((first.counts(), second.counts()), ((1, 0), (0, 1)));
        let other_engine = CompiledCache::open(Some(folder), 8);
        get(&other_engine);
        assert_eq!(other_engine.counts(), (1, 0));
    }

    #[test]
    fn a_damaged_file_is_compiled_again_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        make_private(folder.path()).unwrap();
        get(&open(folder.path()));
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&file).unwrap();
        for damaged in
            [&whole[..10], &whole[..whole.len() - 1], &[&whole[..50], b"x", &whole[51..]].concat(), b""]
        {
            fs::write(&file, damaged).unwrap();
            let cache = open(folder.path());
            get(&cache);
            assert_eq!(cache.counts(), (1, 0));
            assert_eq!(fs::read(&file).unwrap(), whole);
        }
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make_private(folder.path()).unwrap_err().to_string(), "others can write it");
        let cache = open(folder.path());
        get(&cache);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_done_without() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = open(&file.join("below"));
        get(&cache);
        assert_eq!(cache.counts(), (1, 0));
    }

    #[test]
    fn the_oldest_files_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in [(3, "old.cwasm"), (1, "new.cwasm"), (2, "middle.cwasm"), (9, "other.txt")] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age * 60)).unwrap();
        }
        prune(folder.path(), 2).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["middle.cwasm", "new.cwasm", "other.txt"]);
    }
}
