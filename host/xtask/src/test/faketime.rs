//! libfaketime: tests let the clock of one process jump with it.

use std::path::Path;

use anyhow::ensure;

use super::debian;

/// Sees to it that the library is there.
pub(super) fn find_or_install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    debian::install(&["libfaketime"], "the tests", "libfaketime")?;
    ensure!(is_there(), "apt-get installed libfaketime, but it is not to be found");
    Ok(())
}

/// Debian puts it into a folder of the machine's architecture.
fn is_there() -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|folder| folder.path());
    let mut folders =
        folders.chain(["/usr/lib", "/usr/local/lib"].map(|folder| Path::new(folder).to_owned()));
    folders.any(|folder| folder.join("faketime/libfaketime.so.1").exists())
}
