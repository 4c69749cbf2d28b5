//! Compiled components on disk, so that a second start loads instead of compiling.
//!
//! Compiled code is run as it is found, so a process that can write it can do whatever the host can. The
//! folder must therefore be writable by this user alone; a file in it ends with the digest of the code before
//! it, and one that is torn or damaged is compiled anew. Without a folder, or where that takes no more, the
//! code goes through an anonymous file in memory. This is the one place of the project where `unsafe` is
//! needed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::MemfdFlags;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use wasmtime::component::Component;
use wasmtime::{Engine, Precompiled};

use crate::error::{LoadError, detail};
use crate::temp_file;

/// Bytes of the digest behind the compiled code.
const DIGEST_BYTES: u64 = 32;

/// Files that are kept, and their bytes; beyond them those that were not used for longest go.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 4 << 30;

/// What the compiled code of a small component needs.
const SMALL_COMPONENT_BYTES: usize = 1 << 20;

/// A folder of compiled components, keyed by component digest and engine.
#[derive(Debug)]
pub(crate) struct CompiledCache {
    /// Nothing when there is no folder, or none that is safe to use.
    folder: Option<PathBuf>,
    fingerprint: u64,
    compiled: AtomicU64,
    loaded: AtomicU64,
}

/// Where a compiler writes to.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file of the cache folder, not yet under its name.
    Named(NamedTempFile),
    /// A file that has no name anywhere.
    Anonymous(File),
}

impl CompiledCache {
    /// Uses `folder`, made if absent. One that cannot be used is said in the log and done without.
    pub(crate) fn open(folder: Option<PathBuf>, fingerprint: u64) -> Self {
        let folder = folder.filter(|folder| match make_private(folder) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(
                    folder = %folder.display(), %error,
                    "no compile cache: every start compiles all tools and remembers none; set TOOLS_CACHE_DIR to a folder that only this user can write"
                );
                false
            }
        });
        if let Some(folder) = &folder
            && let Err(error) = temp_file::remove_abandoned(folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "files that a killed process left cannot be removed");
        }
        let cache = Self { folder, fingerprint, compiled: AtomicU64::new(0), loaded: AtomicU64::new(0) };
        cache.prune();
        cache
    }

    /// The folder, if there is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The component of that digest, if it was compiled before. Reads the whole file.
    pub(crate) fn find(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest)?;
        let file = open_intact(&path)?;
        let component = load(engine, &file)
            .inspect_err(|error| {
                tracing::debug!(error = detail(error), "compiled code is not for this engine")
            })
            .ok()?;
        self.loaded.fetch_add(1, Ordering::Relaxed);
        self.mark_used(digest);
        Some(component)
    }

    /// Somewhere for a compiler to write to.
    pub(crate) fn output(&self) -> io::Result<Output> {
        match &self.folder {
            Some(folder) => temp_file::create(folder).map(Output::Named),
            None => Output::in_memory(),
        }
    }

    /// Checks what a compiler wrote, keeps it under the component's digest, and loads it.
    pub(crate) fn keep(&self, engine: &Engine, output: Output, digest: &str) -> Result<Component, LoadError> {
        output.check()?;
        let unwritable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
        let file = match (output, self.path(digest)) {
            (Output::Named(aside), Some(path)) => {
                seal(aside.as_file()).map_err(unwritable)?;
                aside.persist(path).map_err(|error| unwritable(error.error))?
            }
            (Output::Named(aside), None) => aside.into_file(),
            (Output::Anonymous(file), _) => file,
        };
        // What is not whole, or for another version or other settings, is found out by wasmtime.
        let component = load(engine, &file).map_err(|error| LoadError::CompilerGarbage(detail(&error)))?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        self.prune();
        Ok(component)
    }

    /// What was not used for longest is pruned first.
    pub(crate) fn mark_used(&self, digest: &str) {
        if let Some(path) = self.path(digest) {
            let now = SystemTime::now();
            // silent-ok: a cache that can be read but not written is as good as before.
            let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(now));
        }
    }

    /// How many components were compiled, and how many were found compiled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.compiled.load(Ordering::Relaxed), self.loaded.load(Ordering::Relaxed))
    }

    fn path(&self, digest: &str) -> Option<PathBuf> {
        let name = format!("{}-{:016x}.cwasm", digest.replace(':', "-"), self.fingerprint);
        self.folder.as_ref().map(|folder| folder.join(name))
    }

    fn prune(&self) {
        if let Some(folder) = &self.folder
            && let Err(error) =
                free_bytes(folder).and_then(|free| prune(folder, MOST_FILES, MOST_BYTES, free))
        {
            tracing::warn!(folder = %folder.display(), %error, "the compile cache could not be pruned");
        }
    }
}

impl Output {
    /// A file in memory, which goes with what is loaded from it.
    pub(crate) fn in_memory() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("compiled-tool", MemfdFlags::CLOEXEC)?;
        Ok(Self::Anonymous(file.into()))
    }

    /// The file, for a compiler.
    pub(crate) fn file(&self) -> io::Result<File> {
        match self {
            Self::Named(aside) => aside.as_file().try_clone(),
            Self::Anonymous(file) => file.try_clone(),
        }
    }

    /// Whether it is still the file that was opened for the compiler, and holds a compiled component.
    fn check(&self) -> Result<(), LoadError> {
        let garbage = |why: &str| Err(LoadError::CompilerGarbage(why.to_owned()));
        let unreadable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
        let file = match self {
            Self::Named(aside) => {
                let (there, opened) = (fs::symlink_metadata(aside.path()), aside.as_file().metadata());
                let (there, opened) = (there.map_err(unreadable)?, opened.map_err(unreadable)?);
                let same = (there.dev(), there.ino()) == (opened.dev(), opened.ino());
                if !same || opened.nlink() != 1 {
                    return garbage("its file was replaced");
                }
                aside.as_file()
            }
            Self::Anonymous(file) => file,
        };
        match Engine::detect_precompiled_file(path_of(file)) {
            Ok(Some(Precompiled::Component)) => Ok(()),
            Ok(_) => garbage("it has not the header of one"),
            Err(error) => garbage(&detail(&error)),
        }
    }
}

/// Maps compiled code into memory. Where files cannot be mapped to be run, such as on a file system that is
/// mounted `noexec`, it is copied.
#[expect(unsafe_code, reason = "wasmtime cannot check that compiled code is what its compiler wrote")]
fn load(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    // SAFETY: the file was written by a compiler that this process started, into a file that this process
    // opened: in a folder that only this user can write, where its digest matches and its name holds the
    // engine's fingerprint, or in one without a name. It is never written again. wasmtime checks its own
    // version and settings once more.
    let mapped = unsafe { Component::deserialize_file(engine, path_of(file)) };
    mapped.or_else(|error| {
        let mut code = Vec::new();
        if File::open(path_of(file)).and_then(|mut file| file.read_to_end(&mut code)).is_err() {
            return Err(error);
        }
        // SAFETY: as above.
        unsafe { Component::deserialize(engine, &code) }
    })
}

/// A path of an open file, whatever is under its name by now.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn open_intact(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    let whole = || -> io::Result<bool> {
        let Some(code) = file.metadata()?.len().checked_sub(DIGEST_BYTES) else { return Ok(false) };
        let mut said = [0; DIGEST_BYTES as usize];
        file.read_exact_at(&mut said, code)?;
        Ok(digest_of(&file, code)? == said)
    };
    if whole().unwrap_or(false) {
        return Some(file);
    }
    tracing::warn!(file = %path.display(), "a compiled tool is damaged and is compiled again");
    None
}

/// Appends the digest of what is there, and sees it written.
fn seal(file: &File) -> io::Result<()> {
    let bytes = file.metadata()?.len();
    file.write_all_at(&digest_of(file, bytes)?, bytes)?;
    file.sync_all()
}

fn digest_of(file: &File, bytes: u64) -> io::Result<[u8; DIGEST_BYTES as usize]> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 32 << 10];
    let mut at = 0;
    while at < bytes {
        let most = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..most).unwrap_or_default();
        file.read_exact_at(part, at)?;
        hasher.update(&*part);
        at += most as u64;
    }
    Ok(hasher.finalize().into())
}

/// Whether compiled tools can be kept in a folder, which is made if need be: it must be ours, nobody else may
/// write it, and it must have room.
pub fn check_compile_cache(folder: &Path) -> io::Result<()> {
    make_private(folder)?;
    // On a full disk a file can be made, and nothing be written into it.
    temp_file::create(folder)?.write_all(&vec![0; SMALL_COMPONENT_BYTES])
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
    temp_file::create(folder).map(drop)
}

/// Bytes that may be written to the volume of that folder.
fn free_bytes(folder: &Path) -> io::Result<u64> {
    let volume = rustix::fs::statvfs(folder)?;
    Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
}

/// Removes what was not used for longest until what is left is within both bounds, and three quarters of what
/// would be `free` without it: on a small volume a new component would find no room otherwise. The file that
/// was used last stays.
fn prune(folder: &Path, most_files: usize, most_bytes: u64, free: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cwasm") {
            // Another process may have removed it meanwhile.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            files.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), path));
        }
    }
    files.sort_unstable();
    let (mut count, mut bytes) = (files.len(), files.iter().map(|(_, bytes, _)| bytes).sum::<u64>());
    let most_bytes = most_bytes.min(bytes.saturating_add(free) / 4 * 3);
    files.pop();
    for (_, own, path) in files {
        if count <= most_files && bytes <= most_bytes {
            break;
        }
        temp_file::remove(&path)?;
        (count, bytes) = (count - 1, bytes - own);
    }
    Ok(())
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

    /// As the host does it, with the compiler in this process.
    fn get(cache: &CompiledCache) {
        let engine = Engine::default();
        if cache.find(&engine, "sha256:1").is_some() {
            return;
        }
        let output = cache.output().unwrap();
        let code = engine.precompile_component(&wat::parse_str(COMPONENT).unwrap()).unwrap();
        output.file().unwrap().write_all(&code).unwrap();
        cache.keep(&engine, output, "sha256:1").unwrap();
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
            file.set_len(10).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age * 60)).unwrap();
        }
        prune(folder.path(), 2, 100, 100).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["middle.cwasm", "new.cwasm", "other.txt"]);
        prune(folder.path(), 2, 19, 100).unwrap();
        assert!(!folder.path().join("middle.cwasm").exists() && folder.path().join("new.cwasm").exists());
    }

    #[test]
    fn a_small_volume_keeps_room_for_new_components() {
        let folder = tempfile::tempdir().unwrap();
        for age in 0..4 {
            let file = File::create(folder.path().join(format!("{age}.cwasm"))).unwrap();
            file.set_len(10).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age * 60)).unwrap();
        }
        let left = |free| {
            prune(folder.path(), 9, 1000, free).unwrap();
            fs::read_dir(folder.path()).unwrap().count()
        };
        assert_eq!([left(16), left(0), left(10), left(0), left(0)], [4, 3, 3, 2, 1]);
        assert!(left(0) == 1 && folder.path().join("0.cwasm").exists());
        assert!(free_bytes(folder.path()).unwrap() > 0);
    }

    #[test]
    fn a_start_removes_what_a_killed_process_left() {
        let folder = tempfile::tempdir().unwrap();
        make_private(folder.path()).unwrap();
        let left = folder.path().join(".tmpabcdef");
        fs::write(&left, "half of a compiled tool").unwrap();
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(600);
        File::options().append(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        open(folder.path());
        assert!(!left.exists());
    }

    fn written(code: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        make_private(folder.path()).unwrap();
        let of = |cache: &CompiledCache| {
            let output = cache.output().unwrap();
            output.file().unwrap().write_all(code).unwrap();
            cache.keep(&Engine::default(), output, "sha256:1").err().unwrap().to_string()
        };
        let (kept, anonymous) = (of(&open(folder.path())), of(&CompiledCache::open(None, 7)));
        assert_eq!(kept, anonymous);
        kept
    }

    #[test]
    fn what_is_not_a_compiled_component_of_this_version_is_never_loaded() {
        assert!(written(b"").contains("the compiler wrote"), "{}", written(b""));
        let module = Engine::default().precompile_module(&wat::parse_str("(module)").unwrap()).unwrap();
        assert!(written(&module).contains("header"), "{}", written(&module));
        let component = wat::parse_str(COMPONENT).unwrap();
        let mut config = wasmtime::Config::new();
        let metered =
            Engine::new(config.consume_fuel(true)).unwrap().precompile_component(&component).unwrap();
        assert!(written(&metered).contains("fuel"), "{}", written(&metered));
        let code = Engine::default().precompile_component(&component).unwrap();
        assert!(written(&code[..100]).contains("the compiler wrote"), "{}", written(&code[..100]));
    }

    #[test]
    fn a_file_that_somebody_put_in_the_compilers_place_is_never_loaded() {
        let folder = tempfile::tempdir().unwrap();
        make_private(folder.path()).unwrap();
        let cache = open(folder.path());
        let Output::Named(aside) = cache.output().unwrap() else { panic!("there is a folder") };
        let code = Engine::default().precompile_component(&wat::parse_str(COMPONENT).unwrap()).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, code).unwrap();
        fs::rename(other, aside.path()).unwrap();
        let refused = cache.keep(&Engine::default(), Output::Named(aside), "sha256:1").err().unwrap();
        assert!(refused.to_string().contains("replaced"), "{refused}");
    }
}
