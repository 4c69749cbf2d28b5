//! Reads files that an operator names, of which nothing is known: no pipe holds us up and no endless file
//! fills the memory.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Why a file is of no use. It quotes nothing of the content.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    #[error("it is not a file")]
    NotAFile,
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error("it is not UTF-8")]
    NotText,
    #[error("it changed while it was read; write it aside and rename it over the old one")]
    Changed,
}

impl FileError {
    /// Whether there is no such file.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// The text of a file of up to `most` bytes that nobody wrote to meanwhile. Blocks.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, FileError> {
    read_with(path, most, |file| {
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

fn read_with(
    path: &Path,
    most: u64,
    read: impl FnOnce(&File) -> io::Result<Vec<u8>>,
) -> Result<String, FileError> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(FileError::Unreadable)?;
    let before = file.metadata().map_err(FileError::Unreadable)?;
    if !before.is_file() {
        return Err(FileError::NotAFile);
    }
    let bytes = read(&file).map_err(FileError::Unreadable)?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLarge(most));
    }
    let after = file.metadata().map_err(FileError::Unreadable)?;
    let written = |metadata: &Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    if written(&before) != written(&after) {
        return Err(FileError::Changed);
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_within_their_bound_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(read_text(&path, 4).unwrap_err().is_absence());
        std::fs::write(&path, "abcd").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "abcd");
        assert_eq!(read_text(&path, 3).unwrap_err().to_string(), "it has more than 3 bytes");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().to_string(), "it is not UTF-8");
        assert_eq!(read_text(folder.path(), 4).unwrap_err().to_string(), "it is not a file");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_text(&pipe, 4).unwrap_err().to_string(), "it is not a file");
    }

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "half").unwrap();
        let read = read_with(&path, 100, |_| {
            std::fs::write(&path, "half and the rest")?;
            Ok(b"half".to_vec())
        });
        assert!(matches!(read, Err(FileError::Changed)), "{read:?}");
    }
}
