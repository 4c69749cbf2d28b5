//! Reading a component's file and the signature beside it, within limits.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use bytes::Bytes;

/// Most bytes that are read of a signature: more than any has.
pub const MOST_SIGNATURE_BYTES: u64 = 1 << 10;

/// What lies beside a component as its signature.
pub fn read_signature_beside(file: &Path) -> anyhow::Result<Option<Bytes>> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".sig");
    let signature = file.with_file_name(name);
    if !signature.exists() {
        return Ok(None);
    }
    let read = read_bounded(&signature, MOST_SIGNATURE_BYTES);
    read.with_context(|| format!("reading the signature {}", signature.display())).map(Some)
}

/// Reads a file that may be too large to be read.
pub fn read_bounded(file: &Path, most: u64) -> anyhow::Result<Bytes> {
    let opened = File::open(file)?;
    ensure!(opened.metadata()?.is_file(), "it is no file");
    let mut bytes = Vec::new();
    opened.take(most + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= most, "it has more than {most} bytes, which is the most that it may have");
    Ok(bytes.into())
}

/// A file's name without `.wasm`.
pub fn stem(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()?.strip_suffix(".wasm")
}
