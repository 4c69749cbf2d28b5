//! Files: manifests, read with errors that name them, and files that are written whole or not at all.
//!
//! What is written may go into a folder that others write into, such as a tools folder. So it is written into
//! a file that is made anew beside the target, never through a link that somebody has put there, and reaches
//! the disk before it gets the target's name.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::{Error, Result};

/// The largest file that is read as a manifest.
const MANIFEST_BYTES: u64 = 1 << 20;

/// The modes of new files, before the umask: as `fs::write` has it, and for the owner alone.
const DEFAULT_MODE: u32 = 0o666;
const PRIVATE_MODE: u32 = 0o600;

/// Writes a file, in the place of what has its name.
///
/// # Errors
/// When it cannot be written. What was there stays.
pub fn replace_file(target: &Path, content: &[u8]) -> io::Result<()> {
    let aside = write_aside(target, content, DEFAULT_MODE)?;
    let renamed = fs::rename(&aside, target);
    if renamed.is_err() {
        let _ = fs::remove_file(&aside);
    }
    renamed
}

/// Writes two files, in the places of what has their names. The first one has what it had again when the
/// second one cannot be written; between the two renames somebody may see one of each.
///
/// # Errors
/// When one of them cannot be written. What was there stays.
pub(crate) fn replace_both(first: (&Path, &[u8]), second: (&Path, &[u8])) -> io::Result<()> {
    // A link is not followed: what it leads to would be copied to where others may read it.
    let is_file = fs::symlink_metadata(first.0).is_ok_and(|found| found.is_file());
    let before = is_file.then(|| fs::read(first.0)).transpose()?;
    // Written first: that is what fails, where there is no room for it.
    let aside = write_aside(second.0, second.1, DEFAULT_MODE)?;
    let renamed = replace_file(first.0, first.1).and_then(|()| {
        fs::rename(&aside, second.0).inspect_err(|_error| {
            let _ = match &before {
                Some(content) => replace_file(first.0, content),
                None => fs::remove_file(first.0),
            };
        })
    });
    if renamed.is_err() {
        let _ = fs::remove_file(&aside);
    }
    renamed
}

/// Makes a file that only its owner may read and write.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] when something has its name, and others when it cannot be written. Then
/// there is no part of it.
pub fn create_private_file(target: &Path, content: &[u8]) -> io::Result<()> {
    let aside = write_aside(target, content, PRIVATE_MODE)?;
    // A rename would replace what another process has put there meanwhile.
    let linked = fs::hard_link(&aside, target);
    let _ = fs::remove_file(&aside);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            write_new(target, content, PRIVATE_MODE)
        }
        linked => linked,
    }
}

/// Writes a file that is not there yet, and removes what a failure leaves of it.
fn write_new(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(target)?;
    file.write_all(content).and_then(|()| file.sync_all()).inspect_err(|_error| {
        let _ = fs::remove_file(target);
    })
}

/// Writes a file beside the target, under a hidden name of this process, and says where.
fn write_aside(target: &Path, content: &[u8], mode: u32) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let aside = target.with_file_name(name);
    // A process of the same id that was killed may have left one. A link is removed, and not followed.
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    write_new(&aside, content, mode)?;
    Ok(aside)
}

/// The text of a manifest, if there is one.
pub(crate) fn read_manifest(path: &Path) -> Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("reading the manifest", path, &error)),
        Ok(metadata) if metadata.len() > MANIFEST_BYTES || !metadata.is_file() => {
            return Err(Error::new("what should be a manifest is too large or no file")
                .at(path)
                .mend("put the manifest there that `agent-tool new` writes"));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| Error::file("reading the manifest", path, &error))
}

/// A manifest in TOML: its tables, lists and strings; all else is null.
pub(crate) fn read_toml(path: &Path) -> Result<Value> {
    let text = read_manifest(path)?.unwrap_or_default();
    let table = DeTable::parse(&text).map_err(|error| {
        Error::new("the manifest is no TOML").at(path).why(error).mend("mend the line that is named")
    })?;
    Ok(convert_table(table.get_ref()))
}

fn convert_table(table: &DeTable<'_>) -> Value {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), convert(value.get_ref()))).collect()
}

fn convert(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Array(items) => items.iter().map(|item| convert(item.get_ref())).collect(),
        DeValue::Table(table) => convert_table(table),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_written_through_a_link_that_others_have_planted() {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, secret) = (folder.path(), home.path().join("authorized_keys"));
        fs::write(&secret, "mine").unwrap();
        let target = folder.join("adder.wasm");
        let aside = folder.join(format!(".adder.wasm.{}", std::process::id()));
        for place in [&target, &aside] {
            symlink(&secret, place).unwrap();
        }
        replace_file(&target, b"a component").unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"mine");
        assert_eq!(fs::read(&target).unwrap(), b"a component");
        assert!(target.symlink_metadata().unwrap().is_file());
        assert_eq!(names(folder), ["adder.wasm"]);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("adder.wasm")).unwrap();
        replace_file(&folder.join("adder.wasm"), b"a component").unwrap_err();
        assert_eq!(names(folder), ["adder.wasm"]);
    }

    #[test]
    fn of_two_files_that_belong_together_both_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (signature, component) = (folder.join("adder.wasm.sig"), folder.join("adder.wasm"));
        let replace = |content: &[u8]| replace_both((&signature, content), (&component, content));
        replace(b"one").unwrap();
        replace(b"two").unwrap();
        assert_eq!(
            (fs::read(&signature).unwrap(), fs::read(&component).unwrap()),
            (b"two".to_vec(), b"two".to_vec())
        );
        assert_eq!(names(folder), ["adder.wasm", "adder.wasm.sig"]);
        // Something is in the way of the component.
        fs::remove_file(&component).unwrap();
        fs::create_dir(&component).unwrap();
        replace(b"three").unwrap_err();
        assert_eq!(fs::read(&signature).unwrap(), b"two");
        fs::remove_file(&signature).unwrap();
        replace(b"three").unwrap_err();
        assert_eq!(names(folder), ["adder.wasm"], "neither a signature nor what was written aside");
    }

    #[test]
    fn a_private_file_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("key.pem");
        create_private_file(&target, b"first").unwrap();
        let again = create_private_file(&target, b"second").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"first");
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["key.pem"]);
    }
}
