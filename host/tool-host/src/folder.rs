//! The tools folder as a file system: which files are in it, what identifies their content, and how they are read.
//!
//! A folder may lie on a mount that does not answer. So everything here runs on threads for blocking work, whoever waits
//! for it has a limit, and no more than [`MOST_HUNG`] threads are ever given to a folder that hangs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::component::{self, MOST_BYTES};
use crate::error::LoadError;

/// Longest a folder may take to be listed, or a file to be read.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Most threads that wait for the folder at the same time.
const MOST_HUNG: usize = 8;

/// Tells one content of a file from the next without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Tools that keep the time of modification, such as `cp -p` and `rsync -t`, cannot keep this one.
    changed: (i64, i64),
}

/// What is in the folder.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Device and inode of the folder itself: another one under the same path is to be watched anew.
    pub(crate) identity: (u64, u64),
    /// Its tool files. One without a fingerprint is there but cannot be looked at.
    pub(crate) files: BTreeMap<String, Option<Fingerprint>>,
}

/// The tools folder.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    threads: Arc<Semaphore>,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, threads: Arc::new(Semaphore::new(MOST_HUNG)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the tool files: `*.wasm`, not hidden, links followed.
    pub(crate) async fn list(&self) -> io::Result<Listing> {
        let path = self.path.clone();
        self.ask(move || list(&path)).await
    }

    /// Reads a file and says its digest.
    pub(crate) async fn read(&self, file: &str) -> Result<(Vec<u8>, String), LoadError> {
        let path = self.path.join(file);
        let read = self.ask(move || {
            Ok(read_bounded(&path).map(|bytes| {
                let digest = component::digest(&bytes);
                (bytes, digest)
            }))
        });
        read.await.unwrap_or_else(|error| Err(LoadError::Unreadable(error)))
    }

    /// Waits for an answer of the file system, up to the limit. The thread that asks may wait on.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let threads = self.threads.clone();
        let answer = async move {
            let permit = threads.acquire_owned().await.map_err(io::Error::other)?;
            let asked = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                question()
            });
            asked.await.map_err(io::Error::other)?
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT, answer).await;
        answer.unwrap_or_else(|_elapsed| {
            let text = format!("it did not answer within {} s", ANSWER_LIMIT.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

/// What is there but cannot be looked at is listed too, because only what is gone may stop serving.
fn list(folder: &Path) -> io::Result<Listing> {
    let itself = fs::metadata(folder)?;
    let mut files = BTreeMap::new();
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
        files.insert(name.to_owned(), fingerprint);
    }
    Ok(Listing { identity: (itself.dev(), itself.ino()), files })
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
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The component's name: it stands in receipts, labels and log lines.
pub(crate) fn component_name(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".wasm")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    ((1..=64).contains(&name.len()) && name.bytes().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_of_components_only_when_plain() {
        assert_eq!(component_name("text-stats.wasm"), Some("text-stats"));
        for bad in [".wasm", "a b.wasm", "a/b.wasm", "a\n.wasm", "é.wasm", "a.txt"] {
            assert_eq!(component_name(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_file_that_was_written_over_has_another_fingerprint_though_its_time_was_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        fs::write(&path, "one").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let fingerprint = || list(folder.path()).unwrap().files["a.wasm"].unwrap();
        let before = fingerprint();
        assert_eq!(fingerprint(), before);
        // The clock that stamps files may tick rarely: until it has, nobody could tell.
        while fingerprint() == before {
            fs::write(&path, "two").unwrap();
            File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), time);
    }

    #[test]
    fn a_folder_that_takes_anothers_place_is_told_from_it() {
        let home = tempfile::tempdir().unwrap();
        let (folder, aside) = (home.path().join("tools"), home.path().join("aside"));
        fs::create_dir(&folder).unwrap();
        let before = list(&folder).unwrap().identity;
        fs::rename(&folder, aside).unwrap();
        fs::create_dir(&folder).unwrap();
        assert_ne!(list(&folder).unwrap().identity, before);
    }
}
