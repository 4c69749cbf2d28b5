//! PostgreSQL: the tests start a server of their own and need its programs.

use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::succeeds;

/// Sees to it that the server's programs are there.
pub(super) fn find_or_install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    debian::install(&["postgresql"], "the tests", "PostgreSQL's server programs")?;
    ensure!(is_there(), "apt-get installed postgresql, but its server is not to be found");
    Ok(())
}

fn is_there() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.into_iter().any(|version| version.path().join("bin/initdb").exists())
        || succeeds(Command::new("initdb").arg("--version"))
}
