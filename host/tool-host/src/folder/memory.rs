//! What a restart has to know: which file owns which tool names, and the last good version of each file with
//! its original bytes.
//!
//! It lies beside the compiled components, in a folder that only this user can write: one file per tools
//! folder and one per original. Each is written aside and renamed, and carries its digest; what is damaged or
//! not ours is ignored and said. It is a cache: without it the rule of `decide.rs` alone decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tool_policy::sha256;

use crate::folder::Content;
use crate::limits::MOST_COMPONENT_BYTES;
use crate::temp_file;
use serde::{Deserialize, Serialize};

/// The version of the form.
const FORM: u32 = 1;

/// Longest memory that is read: thousands of files with all the tools they may have.
const MOST_MEMORY_BYTES: u64 = 16 << 20;

/// Most tools folders that are remembered in one place; beyond them those that were not written for longest
/// go.
const MOST_MEMORIES: usize = 64;

/// How the name of a file with a signature ends.
const SIGNATURE: &str = "signature";

/// Bytes of an original that are compared at a time.
const COMPARED_BYTES: usize = 64 << 10;

/// How long an original of another process may lie there before somebody refers to it.
const GRACE: Duration = Duration::from_mins(10);

/// One version of a component, as far as decisions need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    /// `sha256:…` of the component's bytes.
    pub(crate) digest: String,
    pub(crate) tools: BTreeSet<String>,
    /// Bytes that its tools add to every model call.
    pub(crate) prompt_bytes: u64,
    /// The digest of how it describes itself. Absent in memories of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<String>,
}

/// The last good version of each file, by file name.
pub(crate) type LastGood = BTreeMap<String, FileVersion>;

/// What is remembered of one tools folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) last_good: LastGood,
    /// The files that were proposed from it, with their digests.
    pub(crate) in_folder: BTreeMap<String, String>,
    /// Which of these files are lists of tools of MCP servers. That such a file is missing says nothing
    /// of the folder.
    pub(crate) servers: BTreeSet<String>,
    /// Whether it was ever the replicas that decided what serves.
    pub(crate) has_agreed: bool,
}

/// The memory of one tools folder.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    folder: PathBuf,
    /// Of which tools folder it is.
    tools: String,
}

/// The memory as it is written, after a line with its digest.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    folder: String,
    files: LastGood,
    /// Absent in those of older versions.
    #[serde(default)]
    in_folder: BTreeMap<String, String>,
    #[serde(default)]
    servers: BTreeSet<String>,
    #[serde(default)]
    has_agreed: bool,
}

impl Memory {
    pub(crate) fn new(folder: &Path, tools: &Path) -> Self {
        let tools = path::absolute(tools).unwrap_or_else(|_| tools.to_owned());
        Self { folder: folder.to_owned(), tools: tools.to_string_lossy().into_owned() }
    }

    /// What was remembered last; nothing when that cannot be read.
    pub(crate) fn read(&self) -> Remembered {
        let path = self.path();
        match read(&path) {
            Ok(written) if written.folder == self.tools => {
                let Written { files: last_good, in_folder, servers, has_agreed, .. } = written;
                Remembered { last_good, in_folder, servers, has_agreed }
            }
            Ok(_) => self.ignored("it is of another folder"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Remembered::default(),
            Err(error) => self.ignored(&error.to_string()),
        }
    }

    fn ignored(&self, error: &str) -> Remembered {
        tracing::warn!(
            file = %self.path().display(), error,
            "what was remembered of the tools cannot be used: of two files with one tool the first by name has it"
        );
        Remembered::default()
    }

    /// Remembers this, and forgets everything else about the folder.
    pub(crate) fn write(&self, remembered: &Remembered) -> io::Result<()> {
        let Remembered { last_good: files, in_folder, servers, has_agreed } = remembered.clone();
        let folder = self.tools.clone();
        let written = Written { version: FORM, folder, files, in_folder, servers, has_agreed };
        let text = serde_json::to_string(&written)?;
        let content = format!("{}\n{text}", sha256(text.as_bytes()));
        put(&self.folder, &self.path(), content.as_bytes())
    }

    /// Keeps a component's bytes, unless they are there and whole, and its signature under its name, which it
    /// is over.
    pub(crate) fn keep_original(&self, name: &str, content: &Content) -> io::Result<()> {
        let path = self.original_path(&content.digest);
        let signature_path = signature_path(&path, name);
        // The signature is written first. A kill between the two writes would else leave a copy without it,
        // which every load would refuse.
        match &content.signature {
            Some(signature) => put(&self.folder, &signature_path, signature)?,
            None => temp_file::remove(&signature_path)?,
        }
        if holds(&path, &content.bytes).unwrap_or(false) {
            return Ok(());
        }
        put(&self.folder, &path, &content.bytes)
    }

    /// The copy under a digest, with the signature of a name.
    pub(crate) fn original(&self, name: &str, digest: &str) -> io::Result<Content> {
        let (mut bytes, path) = (Vec::new(), self.original_path(digest));
        File::open(&path)?.take(MOST_COMPONENT_BYTES + 1).read_to_end(&mut bytes)?;
        if sha256(&bytes) != digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kept copy is damaged"));
        }
        // Earlier releases kept one signature for all names.
        let signature = match read_if_there(&signature_path(&path, name))? {
            Some(signature) => Some(signature),
            None => read_if_there(&path.with_extension(SIGNATURE))?,
        };
        Ok(Content { bytes: Arc::new(bytes), digest: digest.to_owned(), signature, permit: None })
    }

    /// Removes the originals that no memory refers to, and the oldest memories when they are too many. Those
    /// of the digests `own` are removed whatever their age: this process wrote them and does not need them.
    pub(crate) fn prune(&self, own: &BTreeSet<String>) -> io::Result<()> {
        let (mut memories, mut originals, mut signatures) = (Vec::new(), Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            // Another process may have removed it meanwhile.
            let Ok(modified) = fs::metadata(&path).and_then(|metadata| metadata.modified()) else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("memory") => memories.push((modified, path)),
                Some("original") => originals.push((modified, path)),
                Some(SIGNATURE) => signatures.push(path),
                _ => {}
            }
        }
        memories.sort_unstable();
        let surplus = memories.len().saturating_sub(MOST_MEMORIES);
        let old: Vec<_> = memories.drain(..surplus).map(|(_, path)| path).collect();
        let known = memories.iter().filter_map(|(_, path)| read(path).ok());
        let in_use: BTreeSet<_> = known
            .flat_map(|written| written.files.into_values())
            .map(|version| self.original_path(&version.digest))
            .collect();
        let own: BTreeSet<_> = own.iter().map(|name| self.original_path(name)).collect();
        let is_young = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age < GRACE);
        let unused = originals.into_iter().filter(|(modified, path)| {
            !in_use.contains(path) && (own.contains(path) || !is_young(*modified))
        });
        let unused: BTreeSet<_> = unused.map(|(_, path)| path).collect();
        signatures.retain(|path| original_of(path).is_none_or(|original| unused.contains(&original)));
        old.into_iter().chain(signatures).chain(unused).try_for_each(|path| temp_file::remove(&path))
    }

    fn path(&self) -> PathBuf {
        let name = sha256(self.tools.as_bytes()).replace(':', "-");
        self.folder.join(format!("{name}.memory"))
    }

    fn original_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.original", name.replace(':', "-")))
    }
}

/// Where the signature of a copy under that name is.
fn signature_path(original: &Path, name: &str) -> PathBuf {
    original.with_extension(format!("{name}.{SIGNATURE}"))
}

/// The copy whose signature lies there: the name of its file has no dot.
fn original_of(signature: &Path) -> Option<PathBuf> {
    let file = signature.file_name()?.to_str()?;
    Some(signature.with_file_name(format!("{}.original", file.split('.').next()?)))
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Written> {
    let broken = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut content = String::new();
    File::open(path)?.take(MOST_MEMORY_BYTES).read_to_string(&mut content)?;
    let (said, text) = content.split_once('\n').ok_or_else(|| broken("it is damaged"))?;
    if said != sha256(text.as_bytes()) {
        return Err(broken("it is damaged"));
    }
    let written: Written = serde_json::from_str(text)?;
    if written.version != FORM {
        return Err(broken("it is of another version"));
    }
    Ok(written)
}

/// Whether the file holds exactly these bytes.
fn holds(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut buffer = vec![0; COMPARED_BYTES.min(bytes.len())];
    for part in bytes.chunks(COMPARED_BYTES) {
        let there = buffer.get_mut(..part.len()).unwrap_or_default();
        file.read_exact(there)?;
        if there != part {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes aside and renames, so that no reader ever sees half a file.
fn put(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = temp_file::create(folder)?;
    aside.write_all(content)?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        Content { bytes: Arc::new(bytes.to_vec()), digest: sha256(bytes), signature: None, permit: None }
    }

    fn kept(name: &str) -> Remembered {
        let tools = [format!("tool_of_{name}")].into();
        let version = FileVersion {
            digest: sha256(name.as_bytes()),
            tools,
            prompt_bytes: 7,
            facts: Some(sha256(b"facts")),
        };
        let file = format!("{name}.wasm");
        Remembered {
            in_folder: [(file.clone(), version.digest.clone())].into(),
            servers: [file.clone()].into(),
            last_good: [(file, version)].into(),
            has_agreed: true,
        }
    }

    #[test]
    fn what_was_written_is_read_and_each_folder_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) =
            (Memory::new(folder.path(), Path::new("/a")), Memory::new(folder.path(), Path::new("/b")));
        assert_eq!(a.read(), Remembered::default());
        a.write(&kept("a")).unwrap();
        b.write(&kept("b")).unwrap();
        assert_eq!((a.read(), b.read()), (kept("a"), kept("b")));
        a.write(&Remembered::default()).unwrap();
        assert_eq!((a.read(), b.read()), (Remembered::default(), kept("b")));
    }

    #[test]
    fn a_memory_that_is_damaged_or_of_another_folder_or_version_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path(), Path::new("/a"));
        memory.write(&kept("a")).unwrap();
        let whole = fs::read(memory.path()).unwrap();
        let mut changed = whole.clone();
        let last = changed.len() - 3;
        changed[last] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..10], &changed, b"", b"\xff\xfe\n", b"not\nours"] {
            fs::write(memory.path(), damaged).unwrap();
            assert_eq!(memory.read(), Remembered::default());
        }
        let signed = |text: String| format!("{}\n{text}", sha256(text.as_bytes()));
        let text = String::from_utf8(whole).unwrap().split_once('\n').unwrap().1.to_owned();
        for foreign in [text.replace(r#""version":1"#, r#""version":2"#), text.replace(r#""/a""#, r#""/b""#)]
        {
            fs::write(memory.path(), signed(foreign)).unwrap();
            assert_eq!(memory.read(), Remembered::default());
        }
        fs::write(memory.path(), signed(text)).unwrap();
        assert_eq!(memory.read(), kept("a"));
    }

    #[test]
    fn an_original_is_what_it_was_or_it_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path(), Path::new("/a"));
        let name = sha256(b"bytes");
        assert_eq!(memory.original("echo", &name).unwrap_err().kind(), io::ErrorKind::NotFound);
        memory.keep_original("echo", &content(b"bytes")).unwrap();
        assert_eq!(memory.original("echo", &name).unwrap(), content(b"bytes"));
        let signed = Content { signature: Some(vec![7; 64]), ..content(b"bytes") };
        memory.keep_original("echo", &signed).unwrap();
        assert_eq!(memory.original("echo", &name).unwrap(), signed);
        memory.keep_original("echo", &content(b"bytes")).unwrap();
        assert_eq!(memory.original("echo", &name).unwrap().signature, None, "it was taken away");
        fs::write(memory.original_path(&name), b"bytez").unwrap();
        assert_eq!(memory.original("echo", &name).unwrap_err().to_string(), "the kept copy is damaged");
        memory.keep_original("echo", &content(b"bytes")).unwrap();
        assert_eq!(
            memory.original("echo", &name).unwrap(),
            content(b"bytes"),
            "it is mended as soon as its file is loaded"
        );
    }

    #[test]
    fn a_copy_never_lies_there_without_its_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, name) = (Memory::new(folder.path(), Path::new("/a")), sha256(b"bytes"));
        // The write of the bytes fails, in the place of a kill between the two writes.
        fs::create_dir(memory.original_path(&name)).unwrap();
        let signed = Content { signature: Some(vec![7; 64]), ..content(b"bytes") };
        memory.keep_original("echo", &signed).unwrap_err();
        fs::remove_dir(memory.original_path(&name)).unwrap();
        let signature = signature_path(&memory.original_path(&name), "echo");
        assert_eq!(fs::read(signature).unwrap(), [7; 64]);
    }

    #[test]
    fn a_signature_is_of_one_name_and_goes_with_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, name) = (Memory::new(folder.path(), Path::new("/a")), sha256(b"bytes"));
        let signed = |signature: &[u8]| Content { signature: Some(signature.to_vec()), ..content(b"bytes") };
        memory.keep_original("one", &signed(b"1")).unwrap();
        memory.keep_original("t.w.o", &signed(b"2")).unwrap();
        memory.keep_original("three", &content(b"bytes")).unwrap();
        let found = |of: &str| memory.original(of, &name).unwrap().signature;
        let of_all = (found("one"), found("t.w.o"), found("three"));
        assert_eq!(of_all, (Some(b"1".to_vec()), Some(b"2".to_vec()), None));
        // As an earlier release left it.
        fs::write(memory.original_path(&name).with_extension(SIGNATURE), b"old").unwrap();
        assert_eq!((found("one"), found("three")), (Some(b"1".to_vec()), Some(b"old".to_vec())));
        memory.prune(&[name].into()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn originals_that_nobody_refers_to_and_surplus_memories_are_pruned() {
        let folder = tempfile::tempdir().unwrap();
        let memory = |n: usize| Memory::new(folder.path(), Path::new(&format!("/{n}")));
        let made_before = |path: &Path, minutes: u64| {
            let then = SystemTime::now() - Duration::from_secs(minutes * 60);
            File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
        };
        for n in 0..=MOST_MEMORIES {
            memory(n).write(&kept(&n.to_string())).unwrap();
            made_before(&memory(n).path(), 100 - n as u64);
        }
        let originals = [("0", 60), ("1", 60), ("unknown", 60), ("new", 1)];
        for (bytes, age) in originals {
            memory(0).keep_original("echo", &content(bytes.as_bytes())).unwrap();
            made_before(&memory(0).original_path(&sha256(bytes.as_bytes())), age);
        }
        memory(1).prune(&BTreeSet::new()).unwrap();
        assert_eq!((memory(0).read(), memory(1).read()), (Remembered::default(), kept("1")));
        let left = originals.map(|(bytes, _)| memory(0).original("echo", &sha256(bytes.as_bytes())).is_ok());
        assert_eq!(left, [false, true, false, true], "of the forgotten folder, in use, unknown, new");
        let own = ["1", "new"].map(|bytes| sha256(bytes.as_bytes())).into();
        memory(1).prune(&own).unwrap();
        let left = originals.map(|(bytes, _)| memory(0).original("echo", &sha256(bytes.as_bytes())).is_ok());
        assert_eq!(
            left,
            [false, true, false, false],
            "what its writer does not need goes, unless somebody does"
        );
    }
}
