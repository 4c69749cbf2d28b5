//! The tools folder as a file system: which files are in it, what identifies their content, and how they are
//! read.
//!
//! A folder may lie on a mount that does not answer. So everything here runs on threads for blocking work,
//! every question has a time limit, and no more than [`MOST_HUNG`] threads are ever given to a folder that
//! hangs. The limit counts from when a question has its thread: a queue behind slow answers is no hang.
//!
//! `watch.rs` notices changes, `content_memory.rs` bounds what is read at once, `memory.rs` remembers what
//! served for a restart.

pub(crate) mod content_memory;
pub(crate) mod memory;
pub(crate) mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_core::words::is_component_name;
use mcp_client::McpServers;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tool_policy::sha256;

use crate::error::LoadError;
use crate::limits::MOST_COMPONENT_BYTES;
use content_memory::ContentPermit;
use watch::FolderId;

/// Longest a folder may take to be listed, or a file to be read, from when a thread does it.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Most bytes that are read of a signature: more than any has.
const MOST_SIGNATURE_BYTES: u64 = 1 << 10;

/// Most threads that wait for the folder at the same time.
const MOST_HUNG: usize = 8;

/// Tells one content of a file and its signature from the next without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    component: Stamp,
    signature: Option<Stamp>,
}

/// Tells one content of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Tools that keep the time of modification, such as `cp -p` and `rsync -t`, cannot keep this one.
    changed: (i64, i64),
}

/// What a component is loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// `sha256:…` of the bytes.
    pub(crate) digest: String,
    /// What lies beside the file as `<name>.wasm.sig`, whatever that is; absent when nothing does.
    pub(crate) signature: Option<Vec<u8>>,
    /// For the bytes, where many may be read at once.
    pub(crate) permit: Option<ContentPermit>,
}

#[derive(Debug, Clone)]
pub(crate) struct Listing {
    /// The folder itself: another one under the same path is to be watched anew.
    pub(crate) identity: FolderId,
    /// Tool files of the folder. One without a fingerprint is there but cannot be looked at.
    pub(crate) files: BTreeMap<String, Option<Fingerprint>>,
    /// Which of the files are lists of tools of MCP servers. The policy has them, whatever is in the
    /// folder.
    pub(crate) servers: BTreeSet<String>,
    /// Whether there is no folder. Then the files are those of MCP servers.
    pub(crate) is_absent: bool,
}

impl Listing {
    fn of_no_folder() -> Self {
        let (files, servers) = (BTreeMap::new(), BTreeSet::new());
        Self { identity: FolderId::default(), files, servers, is_absent: true }
    }
}

#[derive(Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether it is listed as empty while it does not exist.
    may_be_absent: bool,
    threads: Arc<Semaphore>,
    /// How many questions were answered until now.
    answers: Arc<AtomicU64>,
    /// The servers whose lists of tools are files of the folder too.
    servers: Option<Arc<McpServers>>,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            may_be_absent: false,
            threads: Arc::new(Semaphore::new(MOST_HUNG)),
            answers: Arc::default(),
            servers: None,
        }
    }

    /// The folder, which may be one that nobody has made.
    pub(crate) fn that_may_be_absent(self, may_be_absent: bool) -> Self {
        Self { may_be_absent, ..self }
    }

    /// The folder with a file for each MCP server: its list of tools, as if somebody had put it there.
    pub(crate) fn with_servers(self, servers: Arc<McpServers>) -> Self {
        Self { servers: Some(servers), ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the tool files: `*.wasm`, not hidden, links followed.
    pub(crate) async fn list(&self) -> io::Result<Listing> {
        let path = self.path.clone();
        let mut listing = match self.ask(move || list(&path)).await {
            Err(error) if self.may_be_absent && error.kind() == NotFound => Listing::of_no_folder(),
            listed => listed?,
        };
        for (name, round) in self.servers.iter().flat_map(|servers| servers.rounds()) {
            let file = file_of(&name);
            listing.files.insert(file.clone(), Some(Fingerprint::of_round(round)));
            listing.servers.insert(file);
        }
        Ok(listing)
    }

    /// Reads a file and its signature, and says its digest.
    pub(crate) async fn read(&self, file: &str) -> Result<Content, LoadError> {
        let server = component_name(file).and_then(|name| self.servers.as_ref()?.server(name));
        if let Some(server) = server {
            let bytes = server.look().await?;
            return Ok(Content {
                digest: sha256(&bytes),
                bytes: Arc::new(bytes),
                signature: None,
                permit: None,
            });
        }
        let (path, signature) = (self.path.join(file), self.path.join(signature_file(file)));
        let read = self.ask(move || {
            Ok(read_bounded(&path, MOST_COMPONENT_BYTES).and_then(|bytes| {
                let digest = sha256(&bytes);
                let signature = match read_bounded(&signature, MOST_SIGNATURE_BYTES) {
                    Ok(signature) => Some(signature),
                    Err(LoadError::Unreadable(error)) if error.kind() == NotFound => None,
                    // Whatever is wrong with it, it signs nothing; of a component that needs no signature
                    // that is no fault.
                    Err(LoadError::TooLarge { .. } | LoadError::NotAFile) => Some(Vec::new()),
                    Err(error) => return Err(error),
                };
                Ok(Content { bytes: Arc::new(bytes), digest, signature, permit: None })
            }))
        });
        read.await.unwrap_or_else(|error| Err(LoadError::Unreadable(error)))
    }

    /// Asks the file system on a blocking thread and waits up to the limit. A thread that hangs keeps its
    /// permit.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = self.permit().await?;
        let answers = self.answers.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let answer = question();
            answers.fetch_add(1, Ordering::Relaxed);
            answer
        });
        let answer = tokio::time::timeout(ANSWER_LIMIT, asked).await;
        answer.map_err(|_elapsed| no_answer())?.map_err(io::Error::other)?
    }

    /// Waits for a permit as long as other questions are answered.
    async fn permit(&self) -> io::Result<OwnedSemaphorePermit> {
        let mut permit = pin!(self.threads.clone().acquire_owned());
        loop {
            let answers = self.answers.load(Ordering::Relaxed);
            match tokio::time::timeout(ANSWER_LIMIT, &mut permit).await {
                Ok(permit) => return permit.map_err(io::Error::other),
                Err(_elapsed) if self.answers.load(Ordering::Relaxed) == answers => return Err(no_answer()),
                Err(_elapsed) => {}
            }
        }
    }
}

fn no_answer() -> io::Error {
    let text = format!("it did not answer within {} s", ANSWER_LIMIT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
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
            Ok(metadata) => {
                let signature = fs::metadata(folder.join(signature_file(name)));
                let signature = signature.ok().map(|metadata| Stamp::of(&metadata));
                Some(Fingerprint { component: Stamp::of(&metadata), signature })
            }
            Err(_) if entry.path().symlink_metadata().is_err_and(|error| error.kind() == NotFound) => {
                continue;
            }
            Err(_) => None,
        };
        files.insert(name.to_owned(), fingerprint);
    }
    let identity = FolderId { device: itself.dev(), inode: itself.ino() };
    Ok(Listing { identity, files, servers: BTreeSet::new(), is_absent: false })
}

/// Reads a file that may have been swapped for anything since it was looked at: a pipe must not hold us up
/// and an endless file must not fill the memory.
fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, LoadError> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(LoadError::Unreadable)?;
    let metadata = file.metadata().map_err(LoadError::Unreadable)?;
    if !metadata.is_file() {
        return Err(LoadError::NotAFile);
    }
    // As long as the file is now: a vector that grows as it is read ends up to twice as large. The byte more
    // lets the read that finds the end need no more room.
    let room = usize::try_from(metadata.len().min(most) + 1).unwrap_or_default();
    let mut bytes = Vec::with_capacity(room);
    file.take(most + 1).read_to_end(&mut bytes).map_err(LoadError::Unreadable)?;
    if bytes.len() as u64 > most {
        return Err(LoadError::TooLarge { most });
    }
    Ok(bytes)
}

impl Fingerprint {
    /// Of the list of an MCP server, which is read again in the next round.
    fn of_round(round: u64) -> Self {
        let none = (0, 0);
        let component =
            Stamp { device: u64::MAX, inode: u64::MAX, bytes: round, modified: none, changed: none };
        Self { component, signature: None }
    }
}

impl Stamp {
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

/// The name of the file that a component has.
pub(crate) fn file_of(component: &str) -> String {
    format!("{component}.wasm")
}

/// The name of the file with a component's signature.
pub(crate) fn signature_file(file: &str) -> String {
    format!("{file}.sig")
}

/// The component's name: it stands in receipts, labels and log lines.
pub(crate) fn component_name(file: &str) -> Option<&str> {
    file.strip_suffix(".wasm").filter(|name| is_component_name(name))
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

    #[tokio::test(start_paused = true)]
    async fn a_question_that_waits_for_a_thread_has_its_whole_time_when_it_gets_one() {
        let folder = Folder::new(PathBuf::new());
        let busy = folder.threads.clone().acquire_many_owned(MOST_HUNG as u32).await.unwrap();
        let mut asked = pin!(folder.ask(|| Ok("here it is")));
        let almost = ANSWER_LIMIT - Duration::from_secs(1);
        for _ in 0..3 {
            assert!(futures::poll!(&mut asked).is_pending(), "others are answered");
            folder.answers.fetch_add(1, Ordering::Relaxed);
            tokio::time::advance(almost).await;
        }
        drop(busy);
        assert_eq!(asked.await.unwrap(), "here it is");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_gets_no_thread_while_nothing_is_answered_ends_at_the_limit() {
        let folder = Folder::new(PathBuf::new());
        let _hung = folder.threads.clone().acquire_many_owned(MOST_HUNG as u32).await.unwrap();
        let begun = tokio::time::Instant::now();
        let error = folder.ask(|| Ok(())).await.unwrap_err();
        assert_eq!(
            (error.kind(), begun.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, ANSWER_LIMIT.as_secs())
        );
        assert_eq!(error.to_string(), "it did not answer within 10 s");
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
