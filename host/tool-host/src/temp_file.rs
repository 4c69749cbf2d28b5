//! Temporary files for atomic writes: written beside what they replace, then renamed over it, so that no
//! reader ever sees half of a file.
//!
//! Each is locked (`flock`) by its writer for as long as that has it open. A writer that was killed leaves
//! the file but not the lock, so the next start can tell abandoned files from those of another process that
//! shares the folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

/// How temporary files are named. `tempfile`'s default, so that those of earlier versions are cleaned up too.
const PREFIX: &str = ".tmp";

/// Age from which a file that nobody has locked is abandoned: earlier versions do not lock theirs, and a new
/// one is unlocked for a moment.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Age from which a file is abandoned where files cannot be locked. Nothing is written for nearly as long.
const ABANDONED_UNLOCKABLE_AFTER: Duration = Duration::from_secs(60 * 60);

/// A locked temporary file in that folder.
pub(crate) fn create(folder: &Path) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder)?;
    // silent-ok: not every file system has locks. There the age alone decides.
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// Removes the files that killed writers left behind.
pub(crate) fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // The file's writer may have renamed or removed it meanwhile.
        if is_temporary && is_abandoned(&entry.path()).unwrap_or(false) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file that another process may have removed meanwhile.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_abandoned(path: &Path) -> io::Result<bool> {
    let age = SystemTime::now().duration_since(fs::symlink_metadata(path)?.modified()?).unwrap_or_default();
    Ok(match File::open(path)?.try_lock() {
        Ok(()) => age >= ABANDONED_AFTER,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => age >= ABANDONED_UNLOCKABLE_AFTER,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_before(path: &Path, age: Duration) {
        File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn what_killed_writers_left_is_removed_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let writing = create(folder.path()).unwrap();
        made_before(writing.path(), ABANDONED_UNLOCKABLE_AFTER * 2);
        let left = |name: &str, age| {
            let path = folder.path().join(name);
            fs::write(&path, "half").unwrap();
            made_before(&path, age);
            path
        };
        let (old, young) = (left(".tmpOld", ABANDONED_AFTER * 2), left(".tmpYoung", Duration::ZERO));
        let other = left("other", ABANDONED_UNLOCKABLE_AFTER * 2);
        remove_abandoned(folder.path()).unwrap();
        let are_there = [writing.path(), &young, &other, &old].map(Path::exists);
        assert_eq!(are_there, [true, true, true, false]);
        // The writer of the file is gone, and its lock with it.
        let (_, killed) = writing.keep().unwrap();
        remove_abandoned(folder.path()).unwrap();
        assert!(!killed.exists());
    }
}
